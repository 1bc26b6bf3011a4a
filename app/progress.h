// How a user watches a study run.
#pragma once

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/console.h"

#include "dtune/cluster/events.h"

namespace dtune {

// Lines on `out` (not owned): one each time that a trial leaves its slot, and
// now and then one of a trial that keeps it for long; `verbose`: one per event.
std::unique_ptr<ProgressSink> make_plain_progress(std::FILE* out, bool verbose);

// What has to be said even under --quiet, on stderr.
std::unique_ptr<ProgressSink> make_quiet_progress();

// A table that is redrawn in place; stdout must be a terminal. Shows `hint`
// below it once `stop` is set; both must outlive it.
std::unique_ptr<ProgressSink> make_live_progress(const Console& console,
                                                 const std::atomic<int>& stop,
                                                 const std::string& hint);

// One JSON object per event and line, appended to a file. Throws Error(config)
// where it cannot be opened.
std::unique_ptr<ProgressSink> make_event_log(const std::filesystem::path& path);

// Passes everything on, in this order.
std::unique_ptr<ProgressSink> make_fan_out(
    std::vector<std::unique_ptr<ProgressSink>> sinks);

}  // namespace dtune
