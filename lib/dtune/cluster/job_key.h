// A job's key: lets any number of agents into the run of one study, for as long
// as that run lasts. A join token (join.h) is for one machine that keeps its
// keys; agents that an engine starts and replaces keep nothing.
//
//   dtune-job-server <public> <secret>   the coordinator's pair; agents need the
//                                        public key alone: then "-"
//   dtune-job-agent <public> <secret>    the pair of all agents
//   dtune-job-endpoint <tcp://...>       where the coordinator is; may be absent
//   dtune-job-port <number>              where it is to listen; may be absent
//
// A file of such lines is a secret: mode 0600 or 0400. It goes to agents as a
// file or through stdin, never in arguments, environments or logs. Made where
// the run is submitted, or by the coordinator itself (JobAccess); the
// coordinator allows the agents' key in advance.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "dtune/comm/curve.h"

namespace dtune {

struct JobKey {
  CurveKeys server;  // secret_key is "" in what agents get
  CurveKeys agents;
  std::string endpoint;  // "": not said
  int port = 0;          // 0: any

  std::string text() const;
  // What an agent needs: without the server's secret.
  JobKey for_agents() const;
  CurveClient client() const { return {server.public_key, agents}; }
};

// Throws Error(config) where ZeroMQ was built without CURVE.
JobKey make_job_key();

// `source`: what messages call it, a file's name. Throws Error(config) where
// the text is not a job key; never quotes it.
JobKey parse_job_key(const std::string& text, const std::string& source);

// Throws Error(config) where the file is missing, readable by others or no such
// key. "-": reads stdin to its end.
JobKey read_job_key(const std::string& file);

// A secret file that appears whole or not at all; an older one is replaced.
// Errors as write_private_file.
void write_job_key(const std::filesystem::path& file, const JobKey& key);

}  // namespace dtune
