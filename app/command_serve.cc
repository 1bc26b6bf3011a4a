// dtune serve: the page of `dtune report`, live, for a browser on this machine.

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "app/command.h"
#include "app/page_server.h"
#include "app/signals.h"
#include "app/study_list.h"
#include "app/study_loader.h"
#include "app/study_report.h"
#include <fmt/format.h>
#include <sys/resource.h>

#include "dtune/base/private_library.h"
#include "dtune/cluster/capability.h"
#include "dtune/review/report_page.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

struct ServeOptions {
  std::string study;
  std::optional<uint64_t> port;
};

const PageServer& load_server() {
  const PrivateLibrary library{
      .name = "libdtune_serve.so",
      .installed = DTUNE_PRIVATE_LIBRARIES,
      .without = "no page can be served ('dtune report' writes a file)",
      .remedy = "install libcpp-httplib-dev and build dtune again",
      .needs = "cpp-httplib",
  };
  const fs::path file = find_private_library(library);
  const auto entry = reinterpret_cast<PageServerEntry*>(
      load_private_entry(library, file, kPageServerEntryName));
  const PageServer* server = entry(DTUNE_VERSION);
  if (server == nullptr) {
    throw Error(ErrorKind::study,
                fmt::format("{}: belongs to another build of dtune (build or "
                            "install dtune again)",
                            file.string()));
  }
  return *server;
}

// Differs whenever something was committed to the database.
std::string stamp_of(const fs::path& database) {
  std::string stamp;
  for (const char* ending : {"", "-wal"}) {
    const fs::path file = database.string() + ending;
    std::error_code error;
    const auto time = fs::last_write_time(file, error);
    const auto size = fs::file_size(file, error);
    stamp += fmt::format("{} {} ", time.time_since_epoch().count(), size);
  }
  return stamp + (writer_of(database) ? "running" : "");
}

// One study, made anew only when it has changed. Thread-safe.
class ServedStudy {
 public:
  explicit ServedStudy(fs::path database) : database_(std::move(database)) {}

  std::string stamp() const { return stamp_of(database_); }
  std::string data() {
    const std::lock_guard lock(mutex_);
    const std::string now = stamp();
    if (data_.empty() || now != stamp_) {
      data_ = study_page_data(database_);
      stamp_ = now;
    }
    return data_;
  }
  std::string page() {
    const std::string own = data();
    return report_page({&own, 1}, database_.stem().string(), PageUse::served);
  }

 private:
  const fs::path database_;
  std::mutex mutex_;
  std::string stamp_;  // both guarded by mutex_
  std::string data_;
};

// "/" is the study, or a list of those of a folder; "/study/3" the third of it;
// "PAGE/data" what a page draws. Studies that come to be later are numbered
// behind those that were there. Thread-safe.
class Studies {
 public:
  explicit Studies(const std::string& name) {
    std::error_code error;
    if (fs::is_directory(name, error)) {
      folder_ = name;
      look();
    } else {
      add(find_database(name));
    }
  }

  std::optional<PageAnswer> answer(const std::string& path) {
    constexpr std::string_view kData = "/data";
    if (path.ends_with(kData)) {
      ServedStudy* study = find(path.substr(0, path.size() - kData.size()));
      if (study == nullptr) return std::nullopt;
      return PageAnswer{"application/json", "[" + study->data() + "]"};
    }
    if (!folder_.empty() && path == "/") return list();
    ServedStudy* study = find(path);
    if (study == nullptr) return std::nullopt;
    return PageAnswer{"text/html; charset=utf-8", study->page()};
  }

  std::string stamp(const std::string& path) {
    const ServedStudy* study = find(path);
    return study == nullptr ? "" : study->stamp();
  }

 private:
  void add(const fs::path& database) {
    databases_.push_back(database);
    studies_.push_back(std::make_unique<ServedStudy>(database));
  }

  // Takes in what is new in the folder; returns all that is there.
  std::vector<fs::path> look() {
    const std::vector<fs::path> found = databases_below(folder_);
    const std::lock_guard lock(mutex_);
    for (const fs::path& database : found) {
      if (!std::ranges::count(databases_, database)) add(database);
    }
    return databases_;
  }

  ServedStudy* find(const std::string& path) {
    const std::lock_guard lock(mutex_);
    if (folder_.empty()) {
      return path.empty() || path == "/" ? studies_.front().get() : nullptr;
    }
    for (size_t i = 0; i < studies_.size(); ++i) {
      if (path == fmt::format("/study/{}", i + 1)) return studies_[i].get();
    }
    return nullptr;
  }

  PageAnswer list() {
    std::vector<StudyListing> listings;
    for (const fs::path& database : look()) {
      listings.push_back(listing_for(database));
    }
    return {"text/html; charset=utf-8", studies_page(listings, title())};
  }

  // The folder's own name, also of "." and with a slash behind it.
  std::string title() const {
    fs::path path = fs::absolute(folder_).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    return path.has_filename() ? path.filename().string() : folder_;
  }

  std::string folder_;  // "": one study
  std::mutex mutex_;
  std::vector<fs::path> databases_;  // both guarded by mutex_, only grow
  std::vector<std::unique_ptr<ServedStudy>> studies_;
};

int serve(const Console& console, const ServeOptions& options) {
  Studies studies(options.study);
  const PageServer& server = load_server();
  // What trains on this machine comes first.
  ::setpriority(PRIO_PROCESS, 0, 19);
  const StopSignals signals(true);
  PageServerOptions served{
      .port = static_cast<uint16_t>(options.port.value_or(0)),
      .token = new_capability(),
      .session = new_capability(),
      .answer = [&](const std::string& path) { return studies.answer(path); },
      .stamp = [&](const std::string& path) { return studies.stamp(path); },
      .stop = &signals.stop()};
  served.ready = [&](uint16_t port) {
    console.line(
        fmt::format("http://127.0.0.1:{}/?token={}", port, served.token));
    console.notice(
        "open this address in a browser of this machine (it works once; "
        "Ctrl-C ends the server)");
  };
  server.run(served);
  return kExitOk;
}

}  // namespace

Action declare_serve(Arguments& arguments) {
  auto options = std::make_shared<ServeOptions>();
  arguments.describe(
      "Shows the page of 'dtune report' in a browser of this machine, and "
      "keeps it up to date while the study runs in another process. Of a "
      "folder: a list of its studies.\n\nThe address is printed on stdout. It "
      "opens the page once, in one browser; from other machines, forward the "
      "port: ssh -L 8642:127.0.0.1:8642 HOST, with --port 8642.");
  arguments.positional("STUDY", options->study,
                       "The database, its recipe, or a folder of studies.",
                       Complete::study, true);
  arguments.option("--port", options->port, "N",
                   "Listen there (default: any port that is free).",
                   {0, 65535});
  arguments.example("dtune serve recipe.db", "look on while it runs");
  arguments.example("dtune serve . --port 8642", "all studies here");
  return [options](const Console& console) { return serve(console, *options); };
}

}  // namespace dtune
