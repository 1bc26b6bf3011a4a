#include "dtune/train/turns.h"

#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace dtune;  // NOLINT: a test

TEST_CASE("a thread that unlocks and locks again comes after those that wait") {
  Turns turns;
  std::vector<int> order;  // guarded by turns
  turns.lock();
  std::vector<std::jthread> others;
  for (int i = 1; i <= 2; ++i) {
    others.emplace_back([&, i] {
      turns.lock();
      order.push_back(i);
      turns.unlock();
    });
    while (turns.waiting() < static_cast<uint64_t>(i)) {
      std::this_thread::yield();
    }
  }
  turns.unlock();
  turns.lock();
  order.push_back(3);
  turns.unlock();
  others.clear();
  CHECK(order == std::vector{1, 2, 3});
  CHECK(turns.waiting() == 0);
}
