#include "dtune/cluster/checkpoints.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "dtune/base/error.h"
#include "dtune/cluster/sidecar.h"
#include "dtune/cluster/step_checkpoint.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

void remove_file(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

// Of a writer that was killed: "trial-7.checkpoint.4711.1.tmp",
// "trial-7.checkpoint.step-3.new-4711".
bool is_temporary(const fs::path& path) {
  return path.extension() == ".tmp" ||
         path.extension().string().starts_with(".new-");
}

}  // namespace

Checkpoints::Checkpoints(fs::path folder) : folder_(std::move(folder)) {}

void Checkpoints::make_folder() const {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!error) return;
  throw Error(ErrorKind::temporary,
              fmt::format("{}: cannot be made: {} (checkpoints go there)",
                          folder_.string(), error.message()));
}

fs::path Checkpoints::of(TrialId trial) const {
  return folder_ / fmt::format("trial-{}.checkpoint", trial);
}

fs::path Checkpoints::of_step(TrialId trial, int step) const {
  return step_checkpoint(of(trial), step);
}

bool Checkpoints::holds_step(TrialId trial, int step) const {
  std::error_code ignored;
  return fs::exists(of_step(trial, step), ignored);
}

void Checkpoints::keep(TrialId trial, int step) {
  const auto before = kept_.find(trial);
  if (before != kept_.end() && before->second != step) forget_step(trial);
  kept_[trial] = step;
  if (!holds_step(trial, step)) keep_step(of(trial), step);
}

void Checkpoints::pass_over(TrialId trial, int step) {
  const auto kept = kept_.find(trial);
  if (kept != kept_.end() && kept->second == step) return;
  remove_file(of_step(trial, step));
}

void Checkpoints::forget_step(TrialId trial) {
  const auto kept = kept_.find(trial);
  if (kept == kept_.end()) return;
  remove_file(of_step(trial, kept->second));
  kept_.erase(kept);
}

void Checkpoints::remove(TrialId trial) {
  remove_file(of(trial));
  remove_file(sidecar_path(of(trial)));
}

int64_t Checkpoints::bytes() const {
  std::set<std::pair<dev_t, ino_t>> seen;
  int64_t sum = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    struct stat info {};
    if (::stat(entry.path().c_str(), &info) != 0) continue;
    if (!seen.emplace(info.st_dev, info.st_ino).second) continue;
    sum += int64_t{info.st_blocks} * 512;
  }
  return sum;
}

void Checkpoints::recover(const Steps& kept) {
  kept_ = kept;
  std::set<fs::path> wanted;
  for (const auto& [trial, step] : kept) wanted.insert(of_step(trial, step));
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const bool unwanted =
        step_of(entry.path()) > 0 && !wanted.contains(entry.path());
    if (unwanted) remove_file(entry.path());
  }
  remove_temporaries();
}

void Checkpoints::remove_temporaries() const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (is_temporary(entry.path())) remove_file(entry.path());
  }
}

bool Checkpoints::copy(TrialId from, int step, bool from_kept, TrialId to) {
  std::error_code error;
  fs::copy_file(from_kept ? of_step(from, step) : of(from), of(to),
                fs::copy_options::overwrite_existing, error);
  return !error;
}

void Checkpoints::share_step(TrialId from, int step, TrialId to) {
  forget_step(to);
  std::error_code error;
  fs::create_hard_link(of_step(from, step), of_step(to, step), error);
  if (!error) kept_[to] = step;
}

}  // namespace dtune
