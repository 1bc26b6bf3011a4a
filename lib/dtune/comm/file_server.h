// Hands files out, and takes them in, by names that its owner gives them: for
// nodes that do not share the coordinator's disk. See file_protocol.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "dtune/comm/listener.h"

namespace dtune {

struct SharedFile {
  std::filesystem::path path;  // need not be there yet
  bool readable = true;
  // May be replaced with this number (of a lease); none: not at all.
  std::optional<uint64_t> ticket;
  bool durable = false;  // what is stored survives power loss
  // Clients that come over the network have to have one of these keys; empty:
  // any that may connect.
  std::set<std::string> keys;
};

// One thread, so that long transfers do not delay other messages. Knows no
// paths but those that were shared; a name is looked up, never opened.
// Thread-safe; nothing blocks but the destructor, for the request in hand.
//
// Each client has at most files::kWindow chunks under way, so the server holds
// 2 MiB for it, however slow it reads; 8 MiB for one that asks for more. The
// first that looks for a new
// content makes the server read all of it once.
class FileServer {
 public:
  // Listens at once: throws as Listener. remote_queue is set here.
  explicit FileServer(ListenOptions listen);
  ~FileServer();
  FileServer(const FileServer&) = delete;
  FileServer& operator=(const FileServer&) = delete;

  std::string local_endpoint() const;
  std::string remote_endpoint() const;

  // REQUIRES: files::is_name(name). Replaces what the name meant before.
  void share(const std::string& name, SharedFile file);
  // What is under way ends; the begin of an upload is removed.
  void withdraw(const std::string& name);

  struct Traffic {
    uint64_t sent = 0;      // bytes of files
    uint64_t received = 0;  // likewise
    uint64_t refused = 0;   // requests
    uint64_t garbage = 0;   // messages that could not be read
  };
  Traffic traffic() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune
