// A word that gives its holder a right, and that no other can guess.
#pragma once

#include <string>

namespace dtune {

// 128 random bits of the system in hexadecimal digits. Not from a seed: two
// studies must not have the same.
std::string new_capability();

}  // namespace dtune
