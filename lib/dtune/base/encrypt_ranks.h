// Whether ranks of this machine have to encrypt what they send to others.
#pragma once

namespace dtune {

// The environment variable DTUNE_ENCRYPT_RANKS is 1.
bool encrypts_ranks();
// Sets it for this process and all that it starts. Before any thread is
// started.
void encrypt_ranks();

}  // namespace dtune
