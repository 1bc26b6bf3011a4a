// Runs the ranks of a group as threads of a test.
#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace dtune {

// Calls run(0) to run(size - 1) at once; rethrows the first rank's exception.
inline void on_ranks(int size, const std::function<void(int)>& run) {
  std::vector<std::exception_ptr> failures(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        run(rank);
      } catch (...) {
        failures[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace dtune
