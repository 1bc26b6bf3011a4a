// Threads beside the one that a program's signals are meant for.
#pragma once

#include <functional>
#include <thread>

namespace dtune {

// A thread to which no signal is delivered, so that one always wakes the thread
// that waits for it.
std::thread start_quiet_thread(std::function<void()> run);

}  // namespace dtune
