#include "dtune/comm/file_server.h"

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "dtune/base/error.h"
#include "dtune/base/quiet_thread.h"
#include "dtune/comm/file_parts.h"
#include "dtune/comm/file_protocol.h"

namespace dtune {
namespace {

using namespace files;  // NOLINT: this file is one end of the protocol

constexpr Duration kFileTurn = std::chrono::seconds(1);
constexpr int kServerQueue = 4 * kWindow;  // messages for one client

ListenOptions with_queue(ListenOptions listen) {
  listen.remote_queue = kServerQueue;
  return listen;
}

}  // namespace

struct FileServer::Impl {
  explicit Impl(const ListenOptions& listen)
      : listener(context, listen),
        local(listener.local_endpoint()),
        remote(listener.remote_endpoint()),
        thread(start_quiet_thread([this] { run(); })) {}
  ~Impl() {
    stop = true;
    wakeup.notify();
    thread.join();
  }

  void run();
  void serve_all();
  void receive(Frames frames);
  void clear_withdrawn();
  Message answer(const std::string& peer, const Message& message);
  SharedFile named(const std::string& name);

  SocketContext context;
  Listener listener;
  const std::string local;
  const std::string remote;
  Wakeup wakeup;
  Contents contents;  // of the thread, as arrivals and the listener
  Arrivals arrivals;

  mutable std::mutex mutex;  // guards up to `traffic`
  std::map<std::string, SharedFile> shared;
  std::vector<std::string> withdrawn;
  Traffic traffic;

  std::atomic<bool> stop{false};
  std::thread thread;  // last: starts when all else is there
};

void FileServer::Impl::run() {
  PollSet polls;
  while (!stop) {
    polls.clear();
    const size_t woken = polls.add(wakeup.descriptor());
    listener.add_to(polls);
    polls.wait(kFileTurn);
    if (polls.ready(woken)) wakeup.drain();
    clear_withdrawn();
    try {
      serve_all();
    } catch (const Error&) {
      // Of the socket itself; a waiting client asks again.
    }
  }
}

void FileServer::Impl::serve_all() {
  listener.receive_all([this](Frames frames) { receive(std::move(frames)); });
}

void FileServer::Impl::receive(Frames frames) {
  const std::string peer = frames.front();
  Message message;
  try {
    message = decode(std::span(frames).subspan(1));
  } catch (const Error&) {
    const std::lock_guard lock(mutex);
    ++traffic.garbage;
    return;
  }
  Message reply;
  try {
    reply = answer(peer, message);
  } catch (const Problem& problem) {
    reply = Refused{request_of(message), problem.why, problem.text};
    const std::lock_guard lock(mutex);
    ++traffic.refused;
  }
  Frames out = encode(std::move(reply));
  out.insert(out.begin(), peer);
  listener.send(std::move(out));  // false: gone; it asks again if it is not
}

SharedFile FileServer::Impl::named(const std::string& name) {
  const std::lock_guard lock(mutex);
  const auto found = shared.find(name);
  const std::string& key = listener.sender();
  const bool known =
      found != shared.end() && (key.empty() || found->second.keys.empty() ||
                                found->second.keys.contains(key));
  if (!known) {
    throw Problem{Why::forbidden, name + ": nothing of this name is shared"};
  }
  return found->second;
}

Message FileServer::Impl::answer(const std::string& peer,
                                 const Message& message) {
  const auto readable = [this](const std::string& name) {
    SharedFile file = named(name);
    if (!file.readable)
      throw Problem{Why::forbidden, name + ": not to be read"};
    return file;
  };
  if (const auto* find = std::get_if<Find>(&message)) {
    return contents.find(*find, readable(find->name).path);
  }
  if (const auto* read = std::get_if<Read>(&message)) {
    Chunk chunk = contents.read(*read, readable(read->name).path);
    const std::lock_guard lock(mutex);
    traffic.sent += chunk.data.size();
    return chunk;
  }
  if (const auto* put = std::get_if<Put>(&message)) {
    const SharedFile file = named(put->name);
    if (file.ticket != put->ticket) {
      throw Problem{Why::forbidden, put->name + ": the lease is over"};
    }
    return arrivals.put(peer, *put, {file.path, file.durable});
  }
  if (const auto* write = std::get_if<Write>(&message)) {
    const SharedFile file = named(write->name);
    Message reply = arrivals.write(peer, *write, file.ticket);
    const std::lock_guard lock(mutex);
    traffic.received += write->data.size();
    return reply;
  }
  throw Problem{Why::forbidden, "is no request"};
}

void FileServer::Impl::clear_withdrawn() {
  std::vector<std::string> names;
  {
    const std::lock_guard lock(mutex);
    names.swap(withdrawn);
  }
  for (const std::string& name : names) {
    contents.forget(name);
    arrivals.forget(name);
  }
}

FileServer::FileServer(ListenOptions listen)
    : impl_(new Impl(with_queue(std::move(listen)))) {}

FileServer::~FileServer() = default;

std::string FileServer::local_endpoint() const { return impl_->local; }

std::string FileServer::remote_endpoint() const { return impl_->remote; }

void FileServer::share(const std::string& name, SharedFile file) {
  DTUNE_CHECK(is_name(name));
  const std::lock_guard lock(impl_->mutex);
  impl_->shared[name] = std::move(file);
}

void FileServer::withdraw(const std::string& name) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->shared.erase(name) == 0) return;
    impl_->withdrawn.push_back(name);
  }
  impl_->wakeup.notify();
}

FileServer::Traffic FileServer::traffic() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->traffic;
}

}  // namespace dtune
