#include "app/page_server.h"

#include <cerrno>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr const char* kAddress = "127.0.0.1";
constexpr const char* kCookie = "dtune-session";
constexpr size_t kThreads = 32;
constexpr int kMostStreams = 24;  // each holds a thread
constexpr auto kLook = std::chrono::milliseconds(500);
constexpr int kLooksBetweenBeats = 4;

// In a time that does not depend on where they differ.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    different |= static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return different == 0;
}

// The library's own options let several servers share a port, and connections
// go to any of them: the browser of one study is then refused by the other.
void take_port_alone(socket_t socket) {
  const int yes = 1;  // a port whose server has just ended is free
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
}

// The value of our cookie among those of the header.
std::string cookie_of(const httplib::Request& request) {
  const std::string all = "; " + request.get_header_value("Cookie");
  const std::string start = fmt::format("; {}=", kCookie);
  const size_t at = all.find(start);
  if (at == std::string::npos) return "";
  const size_t begin = at + start.size();
  return all.substr(begin, all.find(';', begin) - begin);
}

class Site {
 public:
  explicit Site(const PageServerOptions& options) : options_(options) {
    server_.set_socket_options(take_port_alone);
    server_.new_task_queue = [] {
      return new httplib::ThreadPool(kThreads);  // NOLINT: it takes it so
    };
    server_.set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) {
          return admit(request, response);
        });
    server_.set_exception_handler([](const httplib::Request&,
                                     httplib::Response& response,
                                     const std::exception_ptr& error) {
      refuse(response, 500, describe(error));
    });
    server_.Get(".*", [this](const httplib::Request& request,
                             httplib::Response& response) {
      serve(request, response);
    });
  }

  void run() {
    const int port = bind();
    hosts_ = {fmt::format("{}:{}", kAddress, port),
              fmt::format("localhost:{}", port)};
    std::thread watcher([this] {
      while (*options_.stop == 0 && !over_) std::this_thread::sleep_for(kLook);
      server_.stop();
    });
    options_.ready(static_cast<uint16_t>(port));
    server_.listen_after_bind();
    over_ = true;
    watcher.join();
  }

 private:
  using Admission = httplib::Server::HandlerResponse;

  static std::string describe(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& known) {
      return known.what();
    } catch (...) {
      return "unknown error";
    }
  }

  static void refuse(httplib::Response& response, int status,
                     const std::string& why) {
    response.status = status;
    response.set_content(why + "\n", "text/plain; charset=utf-8");
  }

  int bind() {
    if (options_.port == 0) return server_.bind_to_any_port(kAddress);
    if (server_.bind_to_port(kAddress, options_.port)) return options_.port;
    const int why = errno;  // in use, or of the system's own (below 1024)
    throw Error(why == EADDRINUSE ? ErrorKind::temporary : ErrorKind::config,
                fmt::format("--port: {} cannot be listened on: {} (choose "
                            "another, or leave it out)",
                            options_.port, errno_text(why)));
  }

  Admission admit(const httplib::Request& request,
                  httplib::Response& response) {
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_header("Cache-Control", "no-store");
    if (!hosts_.contains(request.get_header_value("Host"))) {
      refuse(response, 403, "this server is reached as 127.0.0.1 only");
    } else if (request.method != "GET") {
      response.set_header("Allow", "GET");
      refuse(response, 405, "this server is read-only");
    } else if (same_secret(cookie_of(request), options_.session)) {
      return Admission::Unhandled;
    } else if (redeem(request.get_param_value("token"))) {
      response.set_header(
          "Set-Cookie", fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/",
                                    kCookie, options_.session));
      response.set_redirect(request.path, 303);
    } else {
      refuse(response, 401,
             "open the address that 'dtune serve' has shown; it works once");
    }
    return Admission::Handled;
  }

  // A token is good for one browser.
  bool redeem(const std::string& token) {
    const std::lock_guard lock(mutex_);
    if (redeemed_ || !same_secret(token, options_.token)) return false;
    redeemed_ = true;
    return true;
  }

  void serve(const httplib::Request& request, httplib::Response& response) {
    constexpr std::string_view kEvents = "/events";
    if (request.path.ends_with(kEvents)) {
      std::string page =
          request.path.substr(0, request.path.size() - kEvents.size());
      stream(page.empty() ? "/" : page, response);
      return;
    }
    const auto answer = options_.answer(request.path);
    if (!answer) return refuse(response, 404, "there is no such page");
    response.set_content(answer->body, answer->type.c_str());
  }

  void stream(const std::string& page, httplib::Response& response) {
    if (streams_.fetch_add(1) >= kMostStreams) {
      streams_.fetch_sub(1);
      return refuse(response, 503, "too many pages are open");
    }
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, page, seen = options_.stamp(page)](
            size_t, httplib::DataSink& sink) mutable {
          return push(page, seen, sink);
        },
        [this](bool) { streams_.fetch_sub(1); });
  }

  // Waits for a change; a beat now and then finds out that a browser is gone.
  bool push(const std::string& page, std::string& seen,
            httplib::DataSink& sink) {
    for (int look = 0; look < kLooksBetweenBeats; ++look) {
      if (*options_.stop != 0 || !sink.is_writable()) return false;
      const std::string now = options_.stamp(page);
      if (now != seen) {
        seen = now;
        constexpr std::string_view kChanged = "data: changed\n\n";
        return sink.write(kChanged.data(), kChanged.size());
      }
      std::this_thread::sleep_for(kLook);
    }
    constexpr std::string_view kBeat = ":\n\n";
    return sink.write(kBeat.data(), kBeat.size());
  }

  const PageServerOptions& options_;
  httplib::Server server_;
  std::set<std::string> hosts_;  // before it listens
  std::atomic<int> streams_{0};
  std::atomic<bool> over_{false};
  std::mutex mutex_;
  bool redeemed_ = false;  // guarded by mutex_
};

}  // namespace

void run_page_server(const PageServerOptions& options) { Site(options).run(); }

}  // namespace dtune

extern "C" __attribute__((visibility("default"))) const dtune::PageServer*
dtune_page_server(const char* version) {
  static constexpr dtune::PageServer kServer{&dtune::run_page_server};
  return std::string_view(version) == DTUNE_VERSION ? &kServer : nullptr;
}
