#include "cluster/remote_study.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "cluster/toy.h"
#include "eventually.h"
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dtune/store/trial_store.h"

namespace dtune::toy {
namespace {

constexpr Duration kPatience = std::chrono::seconds(90);

std::vector<std::string> joined(std::vector<std::string> words,
                                const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool free_to_bind(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool free =
      bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(socket);
  return free;
}

// A coordinator that comes back must find its port free: one of those that the
// system gives no process by itself (32768 and up, by default).
int own_port() {
  constexpr int kFirst = 12000;
  constexpr int kCount = 20000;
  int port = kFirst + getpid() % kCount;
  while (!free_to_bind(port)) port = kFirst + (port + 1 - kFirst) % kCount;
  return port;
}

std::string text_of(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) ? read_file(path) : "";
}

}  // namespace

RemoteStudy::RemoteStudy(const std::string& name, int trials,
                         const std::string& mode, Places places)
    : id(unique(name)),
      trials_(trials),
      mode_(mode),
      places_(std::move(places)) {
  if (places_.port == 0) places_.port = own_port();
}

RemoteStudy::~RemoteStudy() {
  agents.clear();
  coordinator.reset();
  kill_marked({"DTUNE_STUDY=" + id});
}

void RemoteStudy::start_coordinator() {
  std::filesystem::remove(folder.path() / "endpoint");
  SpawnOptions spawn;
  spawn.argv = joined(places_.head,
                      {DTUNE_REMOTE_PEER, "coordinator", folder.path().string(),
                       id, places_.address, std::to_string(places_.port),
                       std::to_string(trials_), mode_});
  spawn.capture = false;
  coordinator = std::make_unique<Child>(spawn);
  const bool listens = eventually([this] {
    endpoint = text_of(folder.path() / "endpoint");
    return !endpoint.empty() || coordinator->status().has_value();
  });
  if (!listens || endpoint.empty()) {
    throw std::runtime_error("the coordinator did not start");
  }
}

Child& RemoteStudy::start_agent(const std::string& token,
                                const std::string& state,
                                const std::string& node, int patience) {
  SpawnOptions spawn;
  const std::string file =
      token == "none" ? token : (folder.path() / token).string();
  spawn.argv = joined(places_.node, {DTUNE_REMOTE_PEER, "agent", endpoint, file,
                                     (folder.path() / state).string(), node,
                                     std::to_string(patience)});
  spawn.merge = true;
  agents.push_back(std::make_unique<Child>(spawn));
  return *agents.back();
}

std::string RemoteStudy::said() const {
  return text_of(folder.path() / "notices");
}

bool RemoteStudy::notices(const std::string& text) const {
  return eventually([&] { return said().find(text) != std::string::npos; });
}

bool RemoteStudy::trains(int reports) const {
  return eventually([&] {
    try {
      const auto store =
          open_sqlite_store(folder.path() / "study.db", StoreMode::read_only);
      int seen = 0;
      for (const Trial& trial : store->load_trials()) seen += trial.steps();
      return seen >= reports;
    } catch (const Error&) {
      return false;  // it is just being made
    }
  });
}

int RemoteStudy::result() {
  const auto status = coordinator->wait(kPatience);
  return status ? status->exit_code : -1;
}

Ending ending_of(Child& child) {
  Ending out;
  eventually([&] {
    child.read_out(out.text);
    return child.status().has_value();
  });
  child.read_out(out.text);
  if (const auto status = child.status()) out.code = status->exit_code;
  return out;
}

}  // namespace dtune::toy
