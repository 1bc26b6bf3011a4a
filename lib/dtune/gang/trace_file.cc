#include "dtune/gang/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"

namespace dtune::gang {
namespace {

constexpr size_t kLongestName = 200;

using nlohmann::ordered_json;

// Names come over a wire: of any length.
std::string short_name(const std::string& text) {
  return text.substr(0, kLongestName);
}

// An event of the format's type `phase`.
ordered_json event(const std::string& name, const char* phase, int pid) {
  return {{"name", short_name(name)}, {"ph", phase}, {"pid", pid}};
}

ordered_json metadata(const char* name, int pid, ordered_json args) {
  ordered_json json = event(name, "M", pid);
  json["args"] = std::move(args);
  return json;
}

// JSON has no word for the others.
double finite(double value) { return std::isfinite(value) ? value : 0; }

double microseconds_of(int64_t ns) { return static_cast<double>(ns) / 1e3; }

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& path, MonoTime start)
    : path_(path),
      out_(path, std::ios::binary | std::ios::trunc),
      start_ns_(start.time_since_epoch().count()) {
  note_failure();  // to open it
  out_ << "[\n";
  flush();
}

TraceFile::~TraceFile() {
  // No comma after the last one.
  out_ << ascii_json(metadata("end", 0, ordered_json::object())) << "]\n";
}

void TraceFile::flush() {
  out_.flush();
  note_failure();
  if (failure_ == 0) return;
  throw Error(ErrorKind::temporary,
              fmt::format("{}: the trace cannot be written: {}", path_.string(),
                          errno_text(failure_)));
}

void TraceFile::line(std::string_view text) {
  out_ << text << ",\n";
  note_failure();
}

// At once: what is called later changes errno.
void TraceFile::note_failure() {
  if (!out_ && failure_ == 0) failure_ = errno;
}

double TraceFile::microseconds(int64_t ns) const {
  return microseconds_of(ns - start_ns_);
}

void TraceFile::name_process(int pid, const std::string& name,
                             const std::string& label) {
  line(ascii_json(metadata("process_name", pid, {{"name", short_name(name)}})));
  line(ascii_json(
      metadata("process_labels", pid, {{"labels", short_name(label)}})));
  line(ascii_json(metadata("process_sort_index", pid, {{"sort_index", pid}})));
}

int TraceFile::lane(int pid, const std::string& name) {
  constexpr size_t kMostLanes = 10'000;
  if (lanes_.size() >= kMostLanes) return 0;
  const auto [it, fresh] = lanes_.try_emplace({pid, name}, 0);
  if (!fresh) return it->second;
  it->second = 1 + static_cast<int>(std::count_if(
                       lanes_.begin(), lanes_.end(), [&](const auto& entry) {
                         return entry.first.first == pid;
                       }));
  ordered_json json =
      metadata("thread_name", pid, {{"name", short_name(name)}});
  json["tid"] = it->second;
  line(ascii_json(json));
  return it->second;
}

void TraceFile::add(int pid, const TraceItem& item, int64_t offset_ns) {
  constexpr const char* kPhases[] = {"X", "C", "i"};  // of TraceEvent::Kind
  ordered_json json =
      event(item.name, kPhases[static_cast<size_t>(item.kind)], pid);
  json["ts"] = microseconds(item.begin_ns + offset_ns);
  if (item.kind == TraceEvent::Kind::counter) {
    json["args"] = {{"value", finite(item.value)}};
  } else {
    json["tid"] = lane(pid, item.lane);
  }
  if (item.kind == TraceEvent::Kind::span) {
    json["dur"] = microseconds_of(item.duration_ns);
  }
  if (item.kind == TraceEvent::Kind::mark) json["s"] = "t";
  line(ascii_json(json));
}

void TraceFile::counters(int pid, const std::string& name,
                         const std::map<std::string, double>& values,
                         MonoTime when) {
  ordered_json json = event(name, "C", pid);
  json["ts"] = microseconds(when.time_since_epoch().count());
  for (const auto& [key, value] : values)
    json["args"][short_name(key)] = finite(value);
  line(ascii_json(json));
}

void TraceFile::instant(int pid, const std::string& name, MonoTime when) {
  ordered_json json = event(name, "i", pid);
  json["s"] = "p";
  json["tid"] = 0;
  json["ts"] = microseconds(when.time_since_epoch().count());
  line(ascii_json(json));
}

}  // namespace dtune::gang
