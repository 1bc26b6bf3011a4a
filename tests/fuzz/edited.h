// A file that is sound, changed in a few places as the input says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace dtune::fuzz {

// Four bytes of input are one edit: what, where (two bytes; of the first 4 KiB
// or of all), and a byte. Aligned to 8 bytes.
class Edited {
 public:
  Edited(std::string whole, std::span<const uint8_t> input) {
    for (; input.size() >= 4 && !whole.empty(); input = input.subspan(4)) {
      const size_t range = input[0] % 2 == 0
                               ? whole.size()
                               : std::min<size_t>(whole.size(), 4096);
      const size_t at = (size_t{input[1]} << 8 | input[2]) % range;
      edit(whole, input[0] / 2 % 8, at, static_cast<char>(input[3]));
    }
    size_ = whole.size();
    words_.resize(size_ / 8 + 1);
    std::memcpy(words_.data(), whole.data(), size_);
  }

  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(words_)).first(size_);
  }

 private:
  static void edit(std::string& whole, int what, size_t at, char byte) {
    if (what == 0) {
      whole.resize(at);
    } else if (what == 1) {
      whole.insert(at, 1, byte);
    } else if (what == 2) {
      whole.erase(at, 1);
    } else if (what == 3) {
      whole[at] = static_cast<char>('0' + static_cast<uint8_t>(byte) % 10);
    } else {
      whole[at] = byte;
    }
  }

  std::vector<uint64_t> words_;
  size_t size_ = 0;
};

}  // namespace dtune::fuzz
