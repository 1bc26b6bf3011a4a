#include "dtune/gang/gang_trace.h"

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/gang/protocol.h"

namespace dtune::gang {

void GangTrace::open(const std::filesystem::path& file) {
  file_ = std::make_unique<TraceFile>(file, clock_.now());
}

void GangTrace::name(int gang, const GangOptions& options) {
  if (!is_open()) return;
  const std::string label_of_gang = label(options.gang);
  file_->name_process(gang, "gang " + label_of_gang, label_of_gang);
  int member = 0;
  for (const std::string& node : options.nodes) {
    const std::string rank = fmt::format("rank {}", member);
    file_->name_process(
        pid(gang, member),
        node.empty() ? rank : fmt::format("{} ({})", rank, node),
        label_of_gang);
    ++member;
  }
}

void GangTrace::mark(int gang, const GangMark& mark) {
  if (!is_open()) return;
  if (mark.counters.empty()) {
    file_->instant(gang, mark.name, clock_.now());
  } else {
    file_->counters(gang, mark.name, mark.counters, clock_.now());
  }
}

void GangTrace::gauge(int gang, int member, const std::string& name,
                      double value) {
  if (!is_open()) return;
  file_->counters(pid(gang, member), name, {{"value", value}}, clock_.now());
}

void GangTrace::add(int gang, int member, const TraceChunk& chunk) {
  if (!is_open()) return;
  for (const TraceItem& item : chunk.events) {
    file_->add(pid(gang, member), item, chunk.offset_ns);
  }
}

std::optional<std::string> GangTrace::flush() {
  if (!is_open()) return std::nullopt;
  try {
    file_->flush();
    return std::nullopt;
  } catch (const Error& error) {
    file_ = nullptr;
    return error.what();
  }
}

}  // namespace dtune::gang
