// How the fields of a message become MessagePack and come back.
//
// A message is a plain struct. One function, found by its argument, names its
// fields once for counting, writing and reading:
//
//   template <class V>
//   void fields(V& visit, Ack& m) {
//     visit("slot", m.slot, Between{0, kMaxSlots - 1});
//     visit("why", m.why);
//   }
//
// A field is a bool, number, Duration, enum, text, Scalar, a list of such, a
// map of such by name, or a struct that has fields itself. Unknown fields are
// skipped, missing ones refused. What follows a field says what it may be, and
// holds for every item of a list or map; a real is finite without it. Writing
// checks nothing: a sender's mistake is found where it is read.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/wire/frames.h"
#include "dtune/wire/pack.h"

namespace dtune::wire {

// A whole number, both ends included; a Duration in nanoseconds.
struct Between {
  int64_t least = 0;
  int64_t most = 0;
};

// Far beyond any data set, far below overflow when a few are added.
inline constexpr Between kCount{0, int64_t{1} << 56};
// Of an int.
inline constexpr Between kNatural{0, std::numeric_limits<int>::max()};
inline constexpr Between kPositive{1, kNatural.most};
// Nanoseconds of any clock; a few can be added.
inline constexpr Between kTime{-(int64_t{1} << 61), int64_t{1} << 61};
inline constexpr Between kElapsed{0, kTime.most};

// Also NaN and infinities: results of a training that may have diverged.
struct AnyReal {};

// A real, both ends included.
struct Within {
  double least = 0;
  double most = 0;
};
// Of a duration: 30,000 years.
inline constexpr Within kSeconds{0, 1e12};

// A text that `holds` is true of.
struct Text {
  bool (*holds)(std::string_view) = nullptr;
  const char* problem = "";
};

// The size of a field in bulk: a multiple of `unit`.
struct Bytes {
  size_t least = 0;
  size_t most = kMaxFrameBytes;
  size_t unit = 1;
};

// What a YAML scalar can be.
using Scalar = std::variant<bool, int64_t, double, std::string>;

// Throw BadField.
void check(int64_t value, Between range);
void check(std::string_view bulk, Bytes size);
void get_scalar(PackView value, Scalar& out);

template <class T>
concept Struct = std::is_class_v<T>;

class FieldCounter {
 public:
  template <class T, class... Spec>
  void operator()(const char*, T&, Spec...) {
    ++count;
  }
  template <class T>
  void bulk(const char*, T&, Bytes = {}) {}

  size_t count = 0;
};

class FieldWriter {
 public:
  // Fields in bulk are appended to `frames`; a std::string is moved there.
  FieldWriter(PackWriter& out, Frames& frames) : out_(out), frames_(frames) {}

  template <class T, class... Spec>
  void operator()(const char* name, T& field, Spec...) {
    out_.text(name);
    put(field);
  }
  void bulk(const char*, std::string& field, Bytes = {}) {
    frames_.push_back(std::move(field));
  }
  void bulk(const char*, std::string_view& field, Bytes = {}) {
    frames_.emplace_back(field);
  }

 private:
  void put(bool value) { out_.boolean(value); }
  void put(double value) { out_.real(value); }
  void put(std::string& value) { out_.text(value); }
  void put(Duration value) { out_.integer(value.count()); }
  void put(uint64_t value) { out_.natural(value); }
  template <std::integral T>
  void put(T value) {
    out_.integer(int64_t{value});
  }
  template <class E>
  requires std::is_enum_v<E>
  void put(E value) { out_.integer(static_cast<int64_t>(value)); }
  void put(Scalar& value) {
    std::visit([this](auto& v) { put(v); }, value);
  }
  template <class T>
  void put(std::vector<T>& items) {
    out_.begin_array(items.size());
    for (T& item : items) put(item);
  }
  template <class T>
  void put(std::map<std::string, T>& items) {
    out_.begin_map(items.size());
    for (auto& [name, value] : items) {
      out_.text(name);
      put(value);
    }
  }
  template <Struct T>
  void put(T& item) {
    FieldCounter counter;
    fields(counter, item);
    out_.begin_map(counter.count);
    fields(*this, item);
  }

  PackWriter& out_;
  Frames& frames_;
};

// Throws BadField.
class FieldReader {
 public:
  // `bulk`: the frames after the first. A std::string_view that is read from
  // them views them.
  FieldReader(PackView from, std::span<const std::string>& bulk)
      : from_(from), bulk_(bulk) {}

  template <class T, class... Spec>
  void operator()(const char* name, T& field, Spec... spec) {
    within(name, [&] {
      const auto value = from_.find(name);
      if (!value) throw BadField{"", "is missing"};
      get(*value, field, spec...);
    });
  }
  template <class T>
  void bulk(const char* name, T& field, Bytes size = {}) {
    within(name, [&] {
      if (bulk_.empty()) throw BadField{"", "is missing"};
      check(bulk_.front(), size);
      field = bulk_.front();
      bulk_ = bulk_.subspan(1);
    });
  }

 private:
  template <class Act>
  static void within(std::string_view name, Act act) {
    try {
      act();
    } catch (BadField& bad) {
      bad.inside(name);
      throw;
    }
  }

  void get(PackView value, bool& out) { out = value.boolean(); }
  void get(PackView value, double& out, AnyReal) { out = value.real(); }
  void get(PackView value, double& out) {
    out = value.real();
    if (!std::isfinite(out)) throw BadField{"", "is not finite"};
  }
  void get(PackView value, double& out, Within range) {
    get(value, out);
    if (out < range.least || out > range.most) {
      throw BadField{"", "is out of its range"};
    }
  }
  void get(PackView value, std::string& out) { out = value.text(); }
  void get(PackView value, std::string& out, Text text) {
    out = value.text();
    if (!text.holds(out)) throw BadField{"", text.problem};
  }
  void get(PackView value, uint64_t& out) { out = value.natural(); }
  template <std::integral T>
  void get(PackView value, T& out, Between range = whole_range<T>()) {
    const int64_t whole = value.integer();
    check(whole, range);
    out = static_cast<T>(whole);
  }
  void get(PackView value, Duration& out, Between range) {
    const int64_t whole = value.integer();
    check(whole, range);
    out = Duration(whole);
  }
  template <class E>
  requires std::is_enum_v<E>
  void get(PackView value, E& out, E last) {
    const int64_t whole = value.integer();
    check(whole, {0, static_cast<int64_t>(last)});
    out = static_cast<E>(whole);
  }
  void get(PackView value, Scalar& out) { get_scalar(value, out); }
  template <class T, class... Spec>
  void get(PackView value, std::vector<T>& out, Spec... spec) {
    out.assign(value.array_size(), T{});
    for (size_t i = 0; i < out.size(); ++i) {
      within("[" + std::to_string(i) + "]",
             [&] { get(value.item(i), out[i], spec...); });
    }
  }
  template <class T, class... Spec>
  void get(PackView value, std::map<std::string, T>& out, Spec... spec) {
    out.clear();
    for (size_t i = 0; i < value.map_size(); ++i) {
      const std::string name(value.key(i));
      within(name, [&] { get(value.value(i), out[name], spec...); });
    }
  }
  template <Struct T>
  void get(PackView value, T& out) {
    FieldReader reader(value, bulk_);
    fields(reader, out);
  }

  template <class T>
  static constexpr Between whole_range() {
    static_assert(sizeof(T) < sizeof(int64_t) || std::is_signed_v<T>);
    return {int64_t{std::numeric_limits<T>::min()},
            int64_t{std::numeric_limits<T>::max()}};
  }

  PackView from_;
  std::span<const std::string>& bulk_;
};

}  // namespace dtune::wire
