// A study on a cluster in virtual time: the coordinator, its leases, the
// sampler, the scheduler and the launcher's decisions are those of `dtune run`.
#pragma once

#include <functional>
#include <string>

#include "cluster/virtual_cluster.h"

#include "dtune/study/study.h"

namespace dtune {

struct VirtualStudyOptions {
  VirtualClusterOptions cluster;
  // Space, sampler, scheduler, budget and limits; no final training follows.
  Recipe recipe;
  int horizon = 10;
  VirtualCluster::Objective objective;
  double proposal = 0;  // seconds of virtual time that a new point takes
  // Of which the tuner's prior is not to know; "": nothing.
  std::string leave_out;
  // The study is stopped when this says so, asked after every report. May be
  // empty.
  std::function<bool(const Study&, const Trial&)> stop;
};

struct VirtualStudyResult {
  Study study;
  std::string why;     // it ended
  double seconds = 0;  // virtual, until all agents have left
  VirtualClusterFigures cluster;
  int64_t stored = 0;  // reports in the database
  int64_t steps = 0;   // of all trials
  // Steps that are stored once each, and all that the trials have.
  bool whole = false;

  double utilisation() const {
    return cluster.useful_seconds / cluster.node_seconds;
  }
  // What the same trials and steps would use of as many nodes of the same
  // speeds, there from the beginning to the end, where trial i is trained on
  // node i and none is moved.
  double fixed_utilisation = 0;
};

VirtualStudyResult run_virtual_study(const VirtualStudyOptions& options);

}  // namespace dtune
