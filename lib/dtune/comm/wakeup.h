// Lets any thread wake one that waits in a PollSet (comm/socket.h).
#pragma once

namespace dtune {

class Wakeup {
 public:
  Wakeup();
  ~Wakeup();
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;
  int descriptor() const { return descriptor_; }
  void notify() noexcept;
  void drain() noexcept;

 private:
  int descriptor_;
};

}  // namespace dtune
