// A store for processes of one machine that share nothing but a folder.
#pragma once

#include <filesystem>

#include "dtune/comm/collective.h"

namespace dtune {

// One file for each value. Thread-safe.
class FolderStore final : public RendezvousStore {
 public:
  // The folder exists, and outlives the store.
  explicit FolderStore(std::filesystem::path folder)
      : folder_(std::move(folder)) {}

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Duration timeout) override;

 private:
  std::filesystem::path path_of(const std::string& key) const;

  std::filesystem::path folder_;
};

}  // namespace dtune
