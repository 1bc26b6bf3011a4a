// A file descriptor that is closed with its owner.
#pragma once

#include <utility>

#include <unistd.h>

namespace dtune {

// Movable; -1: none. Not thread-safe.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset(other.release());
    return *this;
  }
  int get() const { return value_; }
  // To another owner.
  int release() { return std::exchange(value_, -1); }
  void reset(int value = -1) {
    if (value_ >= 0) ::close(value_);
    value_ = value;
  }

 private:
  int value_;
};

}  // namespace dtune
