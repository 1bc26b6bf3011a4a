#include "dtune/cluster/lease_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/file.h"
#include "dtune/cluster/capability.h"
#include "dtune/cluster/sidecar.h"
#include "dtune/comm/file_parts.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

// Of coordinators that were killed: this one holds the study's lock.
void remove_probes(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (!entry.path().filename().string().starts_with("probe-")) continue;
    std::error_code ignored;
    fs::remove(entry.path(), ignored);
  }
}

}  // namespace

LeaseFileNames::LeaseFileNames(const control::Assign& assign) {
  const std::string lease =
      fmt::format("{}.{}.{}", assign.trial, assign.attempt, assign.capability);
  checkpoint = "checkpoint/" + lease;
  reports = "reports/" + lease;
  model = "model/" + lease;
  recipe = "recipe/" + lease;
}

fs::path recipe_beside(const fs::path& model) {
  fs::path path = model;
  return path.replace_extension(".yaml");
}

LeaseFiles::LeaseFiles(const LeaseFilesOptions& options)
    : options_(options),
      probe_(options.checkpoints / fmt::format("probe-{}", getpid())),
      word_(new_capability()),
      server_(options.listen) {
  fs::create_directories(options_.checkpoints);
  files::remove_parts(options_.checkpoints);
  remove_probes(options_.checkpoints);
  write_file_atomic(probe_, word_, /*durable=*/false);
  if (!options_.prepared_data.empty()) {
    server_.share(LeaseFileNames::kData, {.path = options_.prepared_data});
  }
}

LeaseFiles::~LeaseFiles() {
  std::error_code ignored;
  fs::remove(probe_, ignored);
}

void LeaseFiles::describe(control::Welcome& welcome, bool remote) const {
  welcome.probe = probe_.string();
  welcome.probe_word = word_;
  welcome.files_endpoint =
      remote ? server_.remote_endpoint() : server_.local_endpoint();
  if (remote && options_.listen.security) {
    welcome.files_key = options_.listen.security->keys.public_key;
  }
}

void LeaseFiles::open(control::Assign& assign, const std::string& key) {
  OpenLease& lease = open_[{assign.trial, assign.attempt}];
  if (lease.capability.empty()) lease.capability = new_capability();
  if (!key.empty()) lease.keys.insert(key);
  assign.capability = lease.capability;
  const LeaseFileNames names(assign);
  SharedFile file{.ticket = static_cast<uint64_t>(assign.attempt),
                  .durable = true,
                  .keys = lease.keys};
  const auto share = [this, &file](const std::string& name, fs::path path) {
    file.path = std::move(path);
    server_.share(name, file);
  };
  if (!assign.checkpoint.empty()) {
    share(names.checkpoint, assign.checkpoint);
    share(names.reports, sidecar_path(assign.checkpoint));
  }
  if (assign.model_file.empty()) return;
  std::error_code ignored;
  fs::create_directories(fs::path(assign.model_file).parent_path(), ignored);
  file.readable = false;
  share(names.model, assign.model_file);
  share(names.recipe, recipe_beside(assign.model_file));
}

void LeaseFiles::close_all_but(const Leases& held) {
  std::erase_if(open_, [this, &held](const auto& entry) {
    if (held.contains(entry.first)) return false;
    control::Assign lease;
    lease.trial = entry.first.first;
    lease.attempt = entry.first.second;
    lease.capability = entry.second.capability;
    const LeaseFileNames names(lease);
    for (const std::string* name :
         {&names.checkpoint, &names.reports, &names.model, &names.recipe}) {
      server_.withdraw(*name);
    }
    return true;
  });
}

}  // namespace dtune
