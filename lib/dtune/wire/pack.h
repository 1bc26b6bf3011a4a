// MessagePack, written to a string and read with limits. The library that does
// it (msgpack-cxx) is seen by pack.cc alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace dtune::wire {

// Why a message is refused: what is wrong with which of its fields. Thrown
// while one is read; codec.h makes an Error of it.
struct BadField {
  std::string field;  // "next.spans[3].size"; "": the message as a whole
  std::string what;

  // The field is a part of `outer`: a name, or an index "[3]".
  void inside(std::string_view outer);
};

class PackWriter {
 public:
  PackWriter();
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  void begin_array(size_t size);
  void begin_map(size_t size);
  void integer(int64_t value);
  void natural(uint64_t value);
  void real(double value);
  void boolean(bool value);
  void text(std::string_view value);

  std::string_view bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A value inside an Unpacked, which must outlive it. Accessors throw BadField
// where the value is of another kind.
class PackView {
 public:
  enum class Kind { integer, real, boolean, text, array, map, other };

  explicit PackView(const void* object) : object_(object) {}

  Kind kind() const;
  int64_t integer() const;
  uint64_t natural() const;
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

// Parsed MessagePack. Memory: in proportion to the bytes, plus what kMaxDepth
// lists of kMaxItems take.
class Unpacked {
 public:
  // Throws BadField, never anything else.
  explicit Unpacked(std::string_view bytes);
  ~Unpacked();
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

  PackView root() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune::wire
