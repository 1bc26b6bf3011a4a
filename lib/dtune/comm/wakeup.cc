#include "dtune/comm/wakeup.h"

#include <cerrno>
#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

#include "dtune/base/error.h"

namespace dtune {

Wakeup::Wakeup() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) {
    throw Error(ErrorKind::temporary, "eventfd: " + errno_text(errno));
  }
}

Wakeup::~Wakeup() { close(descriptor_); }

void Wakeup::notify() noexcept {
  const uint64_t one = 1;
  // Fails only where the counter is full, i.e. the waiter is awake already.
  [[maybe_unused]] const auto n = write(descriptor_, &one, sizeof one);
}

void Wakeup::drain() noexcept {
  uint64_t count = 0;
  [[maybe_unused]] const auto n = read(descriptor_, &count, sizeof count);
}

}  // namespace dtune
