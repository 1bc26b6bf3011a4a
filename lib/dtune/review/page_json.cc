#include "dtune/review/page_json.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"

namespace dtune {

void PageJson::put(std::string_view token) {
  if (!fresh_) out_ += ',';
  out_ += token;
  fresh_ = false;
}

void PageJson::begin_object() {
  put("{");
  fresh_ = true;
}

void PageJson::end_object() {
  out_ += '}';
  fresh_ = false;
}

void PageJson::begin_array() {
  put("[");
  fresh_ = true;
}

void PageJson::end_array() {
  out_ += ']';
  fresh_ = false;
}

void PageJson::key(std::string_view name) {
  text(name);
  out_ += ':';
  fresh_ = true;
}

void PageJson::number(double value) {
  if (!std::isfinite(value)) return null();
  put(fmt::format("{:.6g}", value));
}

void PageJson::integer(int64_t value) { put(fmt::format("{}", value)); }

void PageJson::flag(bool value) { put(value ? "true" : "false"); }

void PageJson::null() { put("null"); }

void PageJson::raw(std::string_view json) { put(json); }

void PageJson::text(std::string_view value) {
  const std::string quoted = json_text(nlohmann::json(value));
  std::string safe;
  for (const char c : quoted) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  put(safe);
}

void PageJson::number(std::string_view name, double value) {
  key(name);
  number(value);
}

void PageJson::integer(std::string_view name, int64_t value) {
  key(name);
  integer(value);
}

void PageJson::flag(std::string_view name, bool value) {
  key(name);
  flag(value);
}

void PageJson::text(std::string_view name, std::string_view value) {
  key(name);
  text(value);
}

}  // namespace dtune
