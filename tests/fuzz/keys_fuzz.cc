// Tokens, key files, and the lists of who may join: any bytes are read as what
// they say, or refused as Error(config).
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/cluster/allowed_keys.h"
#include "dtune/cluster/enrolment.h"
#include "dtune/cluster/join.h"
#include "dtune/comm/keys.h"

namespace {

using namespace dtune;  // NOLINT: a program of its own

template <class Read>
void attempt(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TemporaryDirectory folder;
  const std::string text(reinterpret_cast<const char*>(data), size);
  attempt([&] {
    const JoinToken token = parse_join_token(text);
    if (parse_join_token(token.text()).text() != token.text()) std::abort();
  });
  const auto file = folder.path() / "file";
  write_private_file(file, text, true);
  attempt([&] { read_secret_key(file); });
  attempt([&] { read_public_key(file); });
  attempt([&] { read_allowed_keys(file); });
  write_private_file(folder.path() / "open", text, true);
  attempt([&] { find_enrolment(folder.path()); });
  write_private_file(folder.path() / "tokens", text, true);
  attempt([&] { published_tokens(folder.path()); });
  return 0;
}
