// MessagePack as the gangs' messages use it: written from, and read strictly
// into, plain structs.
//
// A struct becomes {field: value, ...}: unknown fields are skipped, missing
// ones are errors. It takes part by a function, found by its argument, that
// names its fields once for writing, counting and reading:
//   template <class V, class M> requires std::same_as<std::remove_const_t<M>,
//   T> void fields(V& visit, M& m) { visit("name", m.name); ... }
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "dtune/base/clock.h"

namespace dtune::gang {

// How many values an enum has, for those that travel; they count from 0.
template <class E>
inline constexpr int64_t kEnumValues = 0;

class PackWriter {
 public:
  PackWriter();
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  void begin_array(size_t size);
  void begin_map(size_t size);
  void integer(int64_t value);
  void real(double value);
  void boolean(bool value);
  void text(std::string_view value);

  std::string_view bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A value inside an Unpacked, which must outlive it. Accessors throw
// Error(comm) where the value is of another kind.
class PackView {
 public:
  explicit PackView(const void* object) : object_(object) {}

  int64_t integer() const;
  double real() const;  // also of an integer
  bool boolean() const;
  std::string_view text() const;

  size_t array_size() const;
  PackView item(size_t index) const;  // REQUIRES: index < array_size()

  size_t map_size() const;
  std::string_view key(size_t index) const;  // REQUIRES: index < map_size()
  PackView value(size_t index) const;
  std::optional<PackView> find(std::string_view name) const;

 private:
  const void* object_;
};

struct PackLimits {
  size_t bytes = size_t{4} << 20;
  size_t array = 4096;
  size_t map = 4096;
  size_t depth = 8;
};

// A parsed message. Memory: in proportion to the bytes, plus what one array or
// map of the limits' size takes.
class Unpacked {
 public:
  // Throws Error(comm), never anything else.
  Unpacked(std::string_view bytes, const PackLimits& limits);
  ~Unpacked();
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

  PackView root() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Throws Error(comm).
[[noreturn]] void fail_message(const std::string& text);

struct FieldCounter {
  size_t count = 0;
  template <class T>
  void operator()(const char*, const T&) {
    ++count;
  }
};

struct FieldWriter {
  PackWriter& out;

  template <class T>
  void operator()(const char* name, const T& field) {
    out.text(name);
    put(field);
  }
  void put(bool value) { out.boolean(value); }
  void put(double value) { out.real(value); }
  void put(const std::string& value) { out.text(value); }
  void put(Duration value) { out.integer(value.count()); }
  template <class E>
  requires(std::is_enum_v<E>) void put(E value) {
    out.integer(static_cast<int64_t>(value));
  }
  template <std::integral T>
  void put(T value) {
    out.integer(int64_t{value});
  }
  template <class T>
  void put(const std::vector<T>& items) {
    out.begin_array(items.size());
    for (const T& item : items) put(item);
  }
  template <class T>
  void put(const std::map<std::string, T>& items) {
    out.begin_map(items.size());
    for (const auto& [name, value] : items) {
      out.text(name);
      put(value);
    }
  }
  template <class T>
  requires(std::is_class_v<T>) void put(const T& item) {
    FieldCounter counter;
    fields(counter, item);
    out.begin_map(counter.count);
    fields(*this, item);
  }
};

struct FieldReader {
  const char* where;
  PackView from;

  template <class T>
  void operator()(const char* name, T& field) {
    const std::optional<PackView> value = from.find(name);
    if (!value) {
      fail_message(std::string(where) + " lacks '" + name + "'");
    }
    get(*value, field);
  }
  void get(PackView value, bool& out) { out = value.boolean(); }
  void get(PackView value, double& out) { out = value.real(); }
  void get(PackView value, std::string& out) { out = value.text(); }
  void get(PackView value, Duration& out) { out = Duration(value.integer()); }
  template <class E>
  requires(std::is_enum_v<E>) void get(PackView value, E& out) {
    static_assert(kEnumValues<E> > 0);
    const int64_t whole = value.integer();
    if (whole < 0 || whole >= kEnumValues<E>) {
      fail_message(std::string(where) + ": unknown choice");
    }
    out = static_cast<E>(whole);
  }
  template <std::integral T>
  void get(PackView value, T& out) {
    const int64_t whole = value.integer();
    if (whole < int64_t{std::numeric_limits<T>::min()} ||
        whole > int64_t{std::numeric_limits<T>::max()}) {
      fail_message(std::string(where) + ": a number is out of range");
    }
    out = static_cast<T>(whole);
  }
  template <class T>
  void get(PackView value, std::vector<T>& out) {
    out.assign(value.array_size(), T{});
    for (size_t i = 0; i < out.size(); ++i) get(value.item(i), out[i]);
  }
  template <class T>
  void get(PackView value, std::map<std::string, T>& out) {
    out.clear();
    for (size_t i = 0; i < value.map_size(); ++i) {
      get(value.value(i), out[std::string(value.key(i))]);
    }
  }
  template <class T>
  requires(std::is_class_v<T>) void get(PackView value, T& out) {
    FieldReader reader{where, value};
    fields(reader, out);
  }
};

}  // namespace dtune::gang
