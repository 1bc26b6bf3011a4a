#include "dtune/engine/runner.h"

#include <utility>

#include <fmt/format.h>

#include "dtune/data_parallel/data_parallel.h"
#include "dtune/parameter_server/parameter_server_session.h"
#include "dtune/pipeline/pipeline_session.h"
#include "dtune/train/session.h"
#include "dtune/train/torch_settings.h"

namespace dtune {
namespace {

// By one process, or by the kind of gang that the recipe asks for. Throws as
// make_cnn_session.
std::unique_ptr<TrialSession> start_session(
    const TrialAssignment& assignment, std::shared_ptr<const PreparedData> data,
    FusedTrainer& fused) {
  if (!assignment.rank) {
    return make_cnn_session(assignment, std::move(data), &fused);
  }
  const ParallelSpec& parallel = assignment.recipe.parallel;
  if (parallel.mode == ParallelMode::data &&
      parallel.sync == SyncKind::allreduce) {
    return make_data_parallel_session(assignment, std::move(data));
  }
  if (parallel.mode == ParallelMode::data && parallel.sync == SyncKind::ps) {
    return make_parameter_server_session(assignment, std::move(data));
  }
  if (parallel.mode == ParallelMode::model ||
      parallel.mode == ParallelMode::hybrid) {
    return make_pipeline_session(assignment, std::move(data));
  }
  throw Error(ErrorKind::config,
              fmt::format("parallel.mode: a gang cannot train by '{}'",
                          to_string(parallel.mode)));
}

class CnnRunner final : public TrialRunner {
 public:
  CnnRunner(int threads, FusedTrainer& fused, MappedData& mapped)
      : fused_(fused), mapped_(mapped) {
    use({.threads = threads});
  }

  std::unique_ptr<TrialSession> start(
      const TrialAssignment& assignment) override {
    return start_session(assignment, data_at(assignment.prepared_data), fused_);
  }

 private:
  // Stays mapped while this lives: the pages are the page cache's, and the
  // next trial takes the same file.
  std::shared_ptr<const PreparedData> data_at(
      const std::filesystem::path& path) {
    std::shared_ptr<const PreparedData>& data = data_[path.string()];
    if (data == nullptr) data = mapped_.at(path);
    return data;
  }

  FusedTrainer& fused_;
  MappedData& mapped_;
  std::map<std::string, std::shared_ptr<const PreparedData>> data_;
};

}  // namespace

std::shared_ptr<const PreparedData> MappedData::at(
    const std::filesystem::path& path) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const PreparedData>& known = known_[path.string()];
  std::shared_ptr<const PreparedData> data = known.lock();
  if (data == nullptr) {
    data = std::make_shared<const PreparedData>(path);
    known = data;
  }
  return data;
}

std::unique_ptr<TrialRunner> make_cnn_runner(int threads, FusedTrainer& fused,
                                             MappedData& data) {
  return std::make_unique<CnnRunner>(threads, fused, data);
}

}  // namespace dtune
