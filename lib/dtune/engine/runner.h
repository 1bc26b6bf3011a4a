// Makes CNN sessions.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "dtune/data/prepared.h"
#include "dtune/study/trial_runner.h"

namespace dtune {

class FusedTrainer;  // train/fused_trainer.h

// Prepared data sets, each mapped once for all that use it at a time: on a
// device, too, trials that have the same one share a copy of its pixels.
// Thread-safe.
class MappedData {
 public:
  // Throws as PreparedData.
  std::shared_ptr<const PreparedData> at(const std::filesystem::path& path);

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const PreparedData>> known_;
};

// `fused` and `data`, which must outlive the runner, are what its trials share
// with those of other runners of this process.
std::unique_ptr<TrialRunner> make_cnn_runner(int threads, FusedTrainer& fused,
                                             MappedData& data);

}  // namespace dtune
