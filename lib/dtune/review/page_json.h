// Compact JSON for a page, written front to back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace dtune {

// Numbers have six significant digits; those that JSON has no word for are
// null. Texts are made UTF-8, and hold no '<': they may stand in a <script> of
// HTML. Not thread-safe. REQUIRES: every begin has its end.
class PageJson {
 public:
  void begin_object();
  void end_object();
  void begin_array();
  void end_array();
  void key(std::string_view name);

  void number(double value);
  void integer(int64_t value);
  void flag(bool value);
  void text(std::string_view value);
  void null();
  void raw(std::string_view json);  // a document as it is

  // key() and a value.
  void number(std::string_view name, double value);
  void integer(std::string_view name, int64_t value);
  void flag(std::string_view name, bool value);
  void text(std::string_view name, std::string_view value);

  std::string take() { return std::move(out_); }

 private:
  void put(std::string_view token);

  std::string out_;
  bool fresh_ = true;  // no comma is due
};

}  // namespace dtune
