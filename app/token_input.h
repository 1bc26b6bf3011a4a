// The stdin of an agent that another machine has started over ssh: the first
// line is its join token, and when it closes the agent has to end.
#pragma once

#include <string>
#include <thread>

#include "dtune/comm/wakeup.h"

namespace dtune {

// The first line of stdin, without blanks around it. Waits for it; reads not a
// byte more. Throws Error(config) where there is none, or it is far too long.
std::string read_token_line();

// From now on this process gets a SIGTERM when its stdin closes: so an agent
// ends with the ssh that started it, and with what started that.
class EndWithStdin {
 public:
  EndWithStdin();
  ~EndWithStdin();
  EndWithStdin(const EndWithStdin&) = delete;
  EndWithStdin& operator=(const EndWithStdin&) = delete;

 private:
  void watch();

  Wakeup done_;
  std::thread thread_;
};

}  // namespace dtune
