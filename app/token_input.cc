#include "app/token_input.h"

#include <array>
#include <cerrno>
#include <csignal>

#include <poll.h>
#include <unistd.h>

#include "dtune/base/error.h"
#include "dtune/base/quiet_thread.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

constexpr size_t kLongestToken = 4096;

// False at its end.
bool read_byte(char& byte) {
  while (true) {
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n >= 0) return n == 1;
    if (errno == EAGAIN) {
      pollfd item{STDIN_FILENO, POLLIN, 0};
      poll(&item, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
}

}  // namespace

std::string read_token_line() {
  std::string line;
  char byte = 0;
  while (read_byte(byte) && byte != '\n') {
    if (line.size() > kLongestToken) break;
    line.push_back(byte);
  }
  const std::string_view token = trim(line, " \t\r");
  if (token.empty() || line.size() > kLongestToken) {
    throw Error(
        ErrorKind::config,
        "--token-stdin: the first line of stdin is not a token (make one "
        "where the study runs: dtune token STUDY)");
  }
  return std::string(token);
}

EndWithStdin::EndWithStdin()
    : thread_(start_quiet_thread([this] { watch(); })) {}

EndWithStdin::~EndWithStdin() {
  done_.notify();
  thread_.join();
}

void EndWithStdin::watch() {
  std::array<char, 256> ignored{};
  while (true) {
    pollfd items[] = {{STDIN_FILENO, POLLIN, 0},
                      {done_.descriptor(), POLLIN, 0}};
    if (poll(items, 2, -1) < 0 && errno != EINTR) return;
    if (items[1].revents != 0) return;
    if (items[0].revents == 0) continue;
    const ssize_t n = ::read(STDIN_FILENO, ignored.data(), ignored.size());
    if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN))) continue;
    kill(getpid(), SIGTERM);
    return;
  }
}

}  // namespace dtune
