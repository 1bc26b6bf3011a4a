#include "dtune/cluster/lease_files.h"

#include <random>

#include <fmt/format.h>
#include <unistd.h>

#include "dtune/base/file.h"
#include "dtune/cluster/sidecar.h"
#include "dtune/comm/file_parts.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

// Not from a seed: two studies must not have the same.
std::string random_word() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(),
                     device());
}

}  // namespace

LeaseFileNames::LeaseFileNames(TrialId trial, Attempt attempt)
    : checkpoint(fmt::format("checkpoint/{}.{}", trial, attempt)),
      reports(fmt::format("reports/{}.{}", trial, attempt)),
      model(fmt::format("model/{}.{}", trial, attempt)),
      recipe(fmt::format("recipe/{}.{}", trial, attempt)) {}

fs::path recipe_beside(const fs::path& model) {
  fs::path path = model;
  return path.replace_extension(".yaml");
}

LeaseFiles::LeaseFiles(const LeaseFilesOptions& options)
    : options_(options),
      probe_(options.checkpoints / fmt::format("probe-{}", getpid())),
      word_(random_word()),
      server_(options.listen) {
  fs::create_directories(options_.checkpoints);
  files::remove_parts(options_.checkpoints);
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

void LeaseFiles::open(const control::Assign& assign) {
  const LeaseFileNames names(assign.trial, assign.attempt);
  const auto ticket = static_cast<uint64_t>(assign.attempt);
  if (!assign.checkpoint.empty()) {
    server_.share(names.checkpoint,
                  {.path = assign.checkpoint, .ticket = ticket});
    server_.share(names.reports,
                  {.path = sidecar_path(assign.checkpoint), .ticket = ticket});
  }
  open_.emplace(assign.trial, assign.attempt);
  if (assign.model_file.empty()) return;
  std::error_code ignored;
  fs::create_directories(fs::path(assign.model_file).parent_path(), ignored);
  server_.share(names.model, {.path = assign.model_file,
                              .readable = false,
                              .ticket = ticket,
                              .durable = true});
  server_.share(names.recipe, {.path = recipe_beside(assign.model_file),
                               .readable = false,
                               .ticket = ticket,
                               .durable = true});
}

void LeaseFiles::close_all_but(const Leases& held) {
  std::erase_if(open_, [this, &held](const auto& lease) {
    if (held.contains(lease)) return false;
    const LeaseFileNames names(lease.first, lease.second);
    for (const std::string* name :
         {&names.checkpoint, &names.reports, &names.model, &names.recipe}) {
      server_.withdraw(*name);
    }
    return true;
  });
}

}  // namespace dtune
