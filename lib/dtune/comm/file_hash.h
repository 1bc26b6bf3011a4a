// The check sum of transferred files: XXH64 with seed 0 (Yann Collet; the
// specification is doc/xxhash_spec.md of github.com/Cyan4973/xxHash). It finds
// damage and names contents; it is no defence against forgers, who have to
// pass the control plane's keys first.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

struct XXH64_state_s;

namespace dtune {

// Takes bytes in pieces of any size. Some gigabytes a second.
class FileHash {
 public:
  FileHash();
  void add(std::string_view bytes);
  // Of all that was added; more may be added afterwards.
  uint64_t value() const;

 private:
  struct Free {
    void operator()(XXH64_state_s* state) const;
  };
  std::unique_ptr<XXH64_state_s, Free> state_;
};

uint64_t file_hash(std::string_view bytes);

}  // namespace dtune
