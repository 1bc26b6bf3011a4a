// Debian's libgloo-dev leaves this header of Gloo's out, though others of its
// headers include it. Here is what the compiler has to know to lay out classes
// that hold these pointers; only Gloo's own library uses them.
#pragma once

#include <memory>

namespace gloo {

template <typename T>
class ShareableNonOwningPtr {
  std::shared_ptr<T> object_;
};

template <typename T>
class WeakNonOwningPtr {
  std::weak_ptr<T> object_;
};

template <typename T>
class NonOwningPtr {
  std::shared_ptr<T> object_;
};

}  // namespace gloo
