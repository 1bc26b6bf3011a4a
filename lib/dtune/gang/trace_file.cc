#include "dtune/gang/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune::gang {
namespace {

constexpr size_t kLongestName = 200;

// A JSON text with its quotes. Bytes that are no ASCII become '?': names come
// over a wire and need not be UTF-8.
std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text.substr(0, kLongestName)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= ' ' && c < 127 ? c : '?';
  }
  return out + '"';
}

// JSON has no word for the others.
double finite(double value) { return std::isfinite(value) ? value : 0; }

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
  out_ << R"({"name":"end","ph":"M","pid":0,"args":{}}])" << '\n';
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
  return static_cast<double>(ns - start_ns_) / 1e3;
}

void TraceFile::name_process(int pid, const std::string& name,
                             const std::string& label) {
  line(fmt::format(
      R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":{}}}}})",
      pid, json_text(name)));
  line(fmt::format(
      R"({{"name":"process_labels","ph":"M","pid":{},"args":{{"labels":{}}}}})",
      pid, json_text(label)));
  line(fmt::format(
      R"({{"name":"process_sort_index","ph":"M","pid":{},"args":{{"sort_index":{}}}}})",
      pid, pid));
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
  line(fmt::format(
      R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})",
      pid, it->second, json_text(name)));
  return it->second;
}

void TraceFile::add(int pid, const TraceItem& item, int64_t offset_ns) {
  const double at = microseconds(item.begin_ns + offset_ns);
  switch (item.kind) {
    case TraceEvent::Kind::span:
      return line(fmt::format(
          R"({{"name":{},"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}})",
          json_text(item.name), pid, lane(pid, item.lane), at,
          static_cast<double>(item.duration_ns) / 1e3));
    case TraceEvent::Kind::counter:
      return line(fmt::format(
          R"({{"name":{},"ph":"C","pid":{},"ts":{:.3f},"args":{{"value":{}}}}})",
          json_text(item.name), pid, at, finite(item.value)));
    case TraceEvent::Kind::mark:
      return line(fmt::format(
          R"({{"name":{},"ph":"i","s":"t","pid":{},"tid":{},"ts":{:.3f}}})",
          json_text(item.name), pid, lane(pid, item.lane), at));
  }
}

void TraceFile::counters(int pid, const std::string& name,
                         const std::map<std::string, double>& values,
                         MonoTime when) {
  std::string args;
  for (const auto& [key, value] : values) {
    args += fmt::format("{}{}:{}", args.empty() ? "" : ",", json_text(key),
                        finite(value));
  }
  line(fmt::format(
      R"({{"name":{},"ph":"C","pid":{},"ts":{:.3f},"args":{{{}}}}})",
      json_text(name), pid, microseconds(when.time_since_epoch().count()),
      args));
}

void TraceFile::instant(int pid, const std::string& name, MonoTime when) {
  line(fmt::format(
      R"({{"name":{},"ph":"i","s":"p","pid":{},"tid":0,"ts":{:.3f}}})",
      json_text(name), pid, microseconds(when.time_since_epoch().count())));
}

}  // namespace dtune::gang
