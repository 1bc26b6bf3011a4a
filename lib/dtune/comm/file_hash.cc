#include "dtune/comm/file_hash.h"

#include <xxhash.h>

namespace dtune {

FileHash::FileHash() : state_(XXH64_createState()) {
  XXH64_reset(state_.get(), 0);
}

void FileHash::Free::operator()(XXH64_state_s* state) const {
  XXH64_freeState(state);
}

void FileHash::add(std::string_view bytes) {
  XXH64_update(state_.get(), bytes.data(), bytes.size());
}

uint64_t FileHash::value() const { return XXH64_digest(state_.get()); }

uint64_t file_hash(std::string_view bytes) {
  return XXH64(bytes.data(), bytes.size(), 0);
}

}  // namespace dtune
