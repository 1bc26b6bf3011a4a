// Whether the ranks of this machine want what they say to others encrypted.
#pragma once

namespace dtune {

// The environment variable DTUNE_ENCRYPT_RANKS is 1.
bool encrypts_ranks();
// Sets it for this process and all that it starts. Before any thread is
// started.
void encrypt_ranks();

}  // namespace dtune
