// Which ranks are missing, when an operation of a Gloo group fails?
//
// Gloo reports only that a connection was closed, or that nothing came over one
// of them: in a ring that is hardly ever the rank at fault, since ranks that
// give up close theirs. So the first to give up, since its deadline is over
// or a connection broke, sends a farewell to all, with the number of operations
// it has begun; a rank that receives one sends its own at once (a thread of its
// own listens); after kGrace at most all close their connections. Then:
//   no farewell, connection closed before -> the process is gone
//   no farewell, connection open          -> it is suspended or cut off, at once
//                                            where that is said of it before
//   farewell with fewer operations        -> it had not come yet
// Cost: (size - 1) small messages for each rank, only after a failure; two
// threads, asleep until then.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtune/comm/collective.h"

namespace dtune {

struct Meshes;

class GlooWatch {
 public:
  static constexpr Duration kGrace = std::chrono::seconds(1);

  GlooWatch(const Meshes& meshes, std::string group);
  ~GlooWatch();
  GlooWatch(const GlooWatch&) = delete;
  GlooWatch& operator=(const GlooWatch&) = delete;

  // An operation begins, of all ranks or with `peer` alone. Throws RanksMissing
  // where the group was given up already. When `timeout` is over, the watch
  // gives up the group; what waits in Gloo then throws.
  void begin(std::optional<int> peer, Duration timeout);
  void end();
  // The operation threw: gives up the group and throws which are missing.
  [[noreturn]] void fail(const std::string& what);
  // Gives up the group, since memory that it uses is about to go.
  void give_up();
  // Where an operation under way needs `rank`, gives up the group, and does not
  // wait for its farewell. Does not block.
  void give_up_on(int rank);
  void throw_if_given_up() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune
