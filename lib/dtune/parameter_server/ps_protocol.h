// What workers and parameter servers say to each other, and how it is written.
//
// Server 0 (the clock) takes all decisions; the others (followers) follow its
// orders, which have one sequence: so every server applies the same updates in
// the same order, and what a worker is sent is one version of the weights on
// all of them.
//
//   worker                      every server            server 0 <-> follower
//     hello               ->                              follow  <-
//                                                         lead    ->
//                                                         present <-
//                         <-   grant (server 0)
//                         <-   pieces of weights, served
//     pieces, push        ->                              arrived <-
//                                                         combine, apply or
//                                                         drop, serve ->
//                         <-   grant ..., or wait
//     ...
//                         <-   finish (server 0), pieces, served
//     buffers (server 0)  ->
//                         <-   buffers, final (all)
//     want_state          ->                              (the leader alone)
//                         <-   pieces of state, state
//
// wire/fields.h says how a message is written; a piece has a second frame with
// its floats. What belongs to another session is ignored; so is what comes
// twice.
//
// Cost of one gradient of S bytes with k servers: S bytes up, S bytes down in
// pieces of at most 1 MiB, k + 1 small messages to and from the worker, and 4
// between server 0 and each follower.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dtune/study/metrics.h"
#include "dtune/wire/frames.h"

namespace dtune::ps {

inline constexpr int64_t kPieceFloats = int64_t{1} << 18;  // 1 MiB
inline constexpr int kMaxMembers = 4096;

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Which server has which parameters, and the pieces they travel in. Slices are
// contiguous and equal to 16 floats; where there are few parameters the last
// servers have none.
class Layout {
 public:
  // REQUIRES: parameters >= 0, servers >= 1.
  Layout(int64_t parameters, int servers);

  int64_t parameters() const { return parameters_; }
  int servers() const { return servers_; }
  Range slice(int server) const;
  // Nearly equal, at most kPieceFloats each.
  std::vector<Range> pieces(int server) const;

 private:
  int64_t parameters_;
  int servers_;
};

enum class Content : uint8_t { gradient, weights, first, second, buffers };

// A worker at the start of a step; again until it is granted work.
struct Hello {
  uint64_t nonce = 0;  // of this worker in this step
  int32_t step = 0;
  int32_t member = 0;
  int64_t parameters = 0;
};

// A follower to server 0, until it is answered.
struct Follow {
  int32_t step = 0;
  int32_t server = 0;
  int64_t parameters = 0;
};

struct Lead {
  uint64_t session = 0;
  int32_t step = 0;
};

// A follower has heard a worker's hello.
struct Present {
  uint64_t session = 0;
  uint64_t nonce = 0;
  int32_t member = 0;
};

// A worker's next samples.
struct Grant {
  uint64_t session = 0;
  int64_t version = 0;  // of the weights sent last
  int64_t ticket = 0;   // 1, 2, ... in the step
  int64_t clock = 0;    // gradients that this worker has pushed before it
  int64_t epoch = 0;
  int64_t number = 0;        // of the batch that the samples belong to
  int64_t first_sample = 0;  // place in the batch of the first
  int64_t first = 0;         // in the epoch's order
  int64_t size = 0;
  double lr = 0;  // of the update that it will be, as far as is known now:
                  // where its samples weigh 1 each
};

// Some of the floats; views the frame it was read from.
struct Piece {
  uint64_t session = 0;
  Content content = Content::gradient;
  int64_t key = 0;  // gradient: its ticket; else the version
  int64_t offset = 0;
  std::string_view floats{};
};

// The gradient is complete; it is the mean over the samples' weight.
struct Push {
  uint64_t session = 0;
  int64_t ticket = 0;
  int64_t version = 0;  // of the weights that it was computed with
  LossTotals totals;    // of its samples
  double squares = 0;   // sum of the gradient's squares
  double seconds = 0;   // of computing it and sending the one before
};

struct Arrived {
  uint64_t session = 0;
  int32_t member = 0;
  int64_t ticket = 0;
};

// All pieces of one version have been sent.
struct Served {
  uint64_t session = 0;
  int64_t version = 0;
  int64_t ticket = 0;     // the worker's last that was decided
  int64_t min_clock = 0;  // all updates of clocks before it are included
};

// Nothing to do now; repeated while it lasts.
struct Wait {
  uint64_t session = 0;
  int32_t member = -1;  // its receiver; -1: any
};

// No samples are left; server 0 needs the worker's buffers.
struct Finish {
  uint64_t session = 0;
};

struct Buffers {  // complete
  uint64_t session = 0;
};

// The step's training is done. To workers after the mean buffers, and to
// followers.
struct Final {
  uint64_t session = 0;
  int64_t version = 0;
  int64_t updates = 0;
  int64_t position = 0;
  LossTotals totals;  // of the step's accepted samples
};

struct WantState {
  uint64_t session = 0;
};

struct State {  // complete
  uint64_t session = 0;
};

// The step is over, and why. `diverged`: the trial's own failure.
struct Broken {
  uint64_t session = 0;
  bool diverged = false;
  std::string why;
};

struct Alive {
  uint64_t session = 0;
};

// Orders of server 0, executed by all servers in this sequence.

struct Term {
  int32_t member = 0;
  int64_t ticket = 0;
  double factor = 1;
};

// The gradients' weighted sum is what is applied next.
struct Combine {
  uint64_t session = 0;
  int64_t sequence = 0;
  std::vector<Term> terms;
  bool wants_squares = false;  // answered by Combined
};

struct Combined {
  uint64_t session = 0;
  int64_t sequence = 0;
  double squares = 0;  // of the sum, in this server's slice
};

struct Apply {
  uint64_t session = 0;
  int64_t sequence = 0;
  double lr = 0;
  int64_t number = 1;
  double scale = 1;
  int32_t worker = -1;  // whose gradient it is; -1: of several, summed
  int64_t version = 0;  // and the weights that it was computed with
};

struct Drop {
  uint64_t session = 0;
  int64_t sequence = 0;
  int32_t member = 0;
  int64_t ticket = 0;
};

struct Serve {
  uint64_t session = 0;
  int64_t sequence = 0;
  int32_t member = 0;
  int64_t ticket = 0;
  int64_t min_clock = 0;
};

struct Forget {
  uint64_t session = 0;
  int64_t sequence = 0;
  int32_t member = 0;
};

using Order = std::variant<Combine, Apply, Drop, Serve, Forget>;

using Message =
    std::variant<Hello, Follow, Lead, Present, Grant, Piece, Push, Arrived,
                 Served, Wait, Finish, Buffers, Final, WantState, State, Broken,
                 Alive, Combine, Combined, Apply, Drop, Serve, Forget>;

// The frames of a message, after `prefix` (a router's peer).
Frames encode(Message message, Frames prefix = {});

// Of the frames from `first` on. Throws Error(comm) for anything that encode()
// does not write.
Message decode(std::span<const std::string> frames);

// Empty there: a broken peer is not heard, and missed in time.
std::optional<Message> try_decode(std::span<const std::string> frames);

// 0 where a message has none (hello, follow).
uint64_t session_of(const Message& message);

// Floats as bytes on the wire and back. REQUIRES: sizes agree.
std::string_view bytes_of(std::span<const float> floats);
void copy_floats(std::string_view bytes, std::span<float> to);

}  // namespace dtune::ps
