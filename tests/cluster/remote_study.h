// A study whose coordinator and agents are processes that reach each other over
// the network alone.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dtune/base/file.h"
#include "dtune/cluster/child_process.h"

namespace dtune::toy {

class RemoteStudy {
 public:
  // Commands are run behind these words, e.g. "ip netns exec a".
  struct Places {
    std::vector<std::string> head;
    std::vector<std::string> node;
    std::string address = "127.0.0.1";
    int port = 0;  // 0: one that is free
  };

  // `mode` is of the first trial (toy.h); the others learn.
  RemoteStudy(const std::string& name, int trials, const std::string& mode,
              Places places);
  RemoteStudy(const std::string& name, int trials, const std::string& mode)
      : RemoteStudy(name, trials, mode, Places()) {}
  ~RemoteStudy();  // kills all

  void start_coordinator();  // waits until it listens
  // With "token1", ...; "none": by the key that it has. Looks for the
  // coordinator for `patience` seconds.
  Child& start_agent(const std::string& token, const std::string& state = "s",
                     const std::string& node = "far", int patience = 60);
  // Waits until `condition` holds; false after a long while.
  bool notices(const std::string& text) const;  // waits until it was said
  std::string said() const;                     // all notices
  // Reports that the database holds by now.
  bool trains(int reports) const;
  // Exit code of the coordinator; -1: it does not end.
  int result();

  TemporaryDirectory folder;
  std::unique_ptr<Child> coordinator;
  std::vector<std::unique_ptr<Child>> agents;
  std::string endpoint;  // of the coordinator
  const std::string id;

 private:
  const int trials_;
  const std::string mode_;
  Places places_;
};

// What a child wrote, and its exit code (-1: it does not end).
struct Ending {
  int code = -1;
  std::string text;
};
Ending ending_of(Child& child);

}  // namespace dtune::toy
