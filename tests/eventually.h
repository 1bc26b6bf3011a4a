// Waiting in tests for what happens at its own time.
#pragma once

#include <chrono>
#include <thread>

namespace dtune {

// Looks every few milliseconds until `condition` holds. False after `patience`,
// which is long: machines may be loaded.
template <class Condition>
bool eventually(const Condition& condition,
                std::chrono::seconds patience = std::chrono::seconds(90)) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace dtune
