// The HTTP server of `dtune serve`: pages of this machine for this user alone.
//
// Trust: it listens on 127.0.0.1 only. Every request has to name it by an
// address of its own (Host, so that no other site's name leads here), be a GET,
// and carry the session's cookie; the cookie is given in exchange for the token
// of the address that the terminal shows, once. It is HttpOnly and SameSite:
// neither scripts nor other sites can use it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace dtune {

struct PageAnswer {
  std::string type;  // "text/html"
  std::string body;
};

// The functions are called on the server's threads, several at a time.
struct PageServerOptions {
  uint16_t port = 0;  // 0: any that is free
  std::string token;
  std::string session;  // the cookie's value
  // Of a path; empty: there is no such page (404). Throws Error (500).
  std::function<std::optional<PageAnswer>(const std::string& path)> answer;
  // Changes whenever what the path shows has changed; empty: it never does.
  // GET PATH/events tells it, as a stream of server-sent events.
  std::function<std::string(const std::string& path)> stamp;
  std::function<void(uint16_t port)> ready;
  const std::atomic<int>* stop = nullptr;  // serves until it is not 0
};

// Blocks. Throws Error(config) where the port is in use.
void run_page_server(const PageServerOptions& options);

// What libdtune_serve.so, apart since it brings OpenSSL and brotli to a program
// that seldom needs them, says to the program. Entry point: dtune_page_server.
struct PageServer {
  void (*run)(const PageServerOptions& options);
};
using PageServerEntry = const PageServer*(const char* version);
inline constexpr const char* kPageServerEntryName = "dtune_page_server";

}  // namespace dtune
