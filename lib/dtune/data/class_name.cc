#include "dtune/data/class_name.h"

#include "dtune/base/utf8.h"

namespace dtune {

std::string printable_name(std::string_view raw) {
  std::string name;
  while (!raw.empty()) {
    const CodePoint point = next_code_point(raw);
    const bool shown =
        point.valid && point.value >= 0x20 && point.value != 0x7f;
    name += shown ? raw.substr(0, point.bytes) : "?";
    raw.remove_prefix(point.bytes);
  }
  return name;
}

}  // namespace dtune
