// The covariance of the freeze-thaw process (freeze_thaw_process.h) and its
// derivatives in the logarithms of the hyper-parameters. A private header: it
// needs Eigen.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <Eigen/Core>

#include "dtune/surrogate/freeze_thaw_process.h"

namespace dtune {

// Positions in the vector of hyper-parameters after the length scale of each
// dimension: logarithms, but for top_at.
enum Hyper : int {
  time_scale_at,
  noise_at,
  training_at,
  residual_at,
  scale_at,
  learnt_at,
  top_at,
  warp_scale_at,
  shared_hypers
};

// n inputs in columns that loops run along.
struct ProcessInputs {
  Eigen::MatrixXd unit;      // [n][d]
  Eigen::VectorXd log_time;  // [n]
  Eigen::VectorXd mean;      // [n] m
  Eigen::MatrixXd phi;       // [k][n]
  // How far each lies beyond the ends of the prior's axes, in the lengths over
  // which what was learnt at an end stops to say anything. [n][3]
  Eigen::MatrixXd beyond;
  bool any_beyond = false;
  Eigen::VectorX<int64_t> training;  // [n]

  Eigen::Index size() const { return log_time.size(); }
  // phi . phi, [n][n].
  Eigen::MatrixXd products() const { return phi.transpose() * phi; }
  // Sets the numbers of columns; REQUIRES: size() == 0.
  void reserve_columns(Eigen::Index dimensions, Eigen::Index components);
  void append(std::span<const ProcessInput> inputs, const CubePrior* prior);
  // `count` of them from `from` on; those with these numbers.
  ProcessInputs part(Eigen::Index from, Eigen::Index count) const;
  ProcessInputs chosen(const std::vector<Eigen::Index>& which) const;

 private:
  void resize(Eigen::Index n);
  void set(Eigen::Index i, const ProcessInput& input, const CubePrior* prior);
};

// Immutable for one vector of hyper-parameters.
class ProcessKernel {
 public:
  // `trainings_differ`: the deviation of trainings is not left out.
  ProcessKernel(const std::vector<ProcessDimension>& dimensions,
                const Eigen::VectorXd& hyper, bool trainings_differ);

  // Covariance of `a` with `b`, reports' own noise left out. [na][nb]
  Eigen::MatrixXd cross(const ProcessInputs& a, const ProcessInputs& b) const;
  // The same of one set with itself, noise and jitter on the diagonal; lower
  // triangle. `products`: phi . phi', [n][n].
  Eigen::MatrixXd self(const ProcessInputs& a,
                       const Eigen::MatrixXd& products) const;
  // What self() adds to the diagonal.
  double noise() const;
  // (self() - what it would be of f alone) v: of the noise and what trainings
  // have of their own.
  Eigen::VectorXd times_noise(const ProcessInputs& a,
                              const Eigen::VectorXd& v) const;
  // Prior variance at each input.
  Eigen::VectorXd variance(const ProcessInputs& a) const;
  // Adds sum_ij w_ij dK_ij/dh to gradient[h], for symmetric w.
  void add_gradient(const ProcessInputs& a, const Eigen::MatrixXd& products,
                    const Eigen::MatrixXd& w, Eigen::VectorXd& gradient) const;

 private:
  using Array = Eigen::ArrayXd;
  struct Moment;
  struct Column;

  // Of input j of `b` and the inputs of `a` from `from` on: adds the squared
  // scaled differences in dimension d.
  void add_squares(const ProcessInputs& a, Eigen::Index from,
                   const ProcessInputs& b, Eigen::Index j, Eigen::Index d,
                   Array& sum) const;
  static void add_beyond(const ProcessInputs& a, Eigen::Index from,
                         const ProcessInputs& b, Eigen::Index j, Array& sum);
  void add_categories(const ProcessInputs& a, Eigen::Index from,
                      const ProcessInputs& b, Eigen::Index j, Array& inside,
                      Array& outside) const;
  Eigen::MatrixXd scaled(const ProcessInputs& a, bool recorded) const;
  // Of input j of `b` and the inputs of `a` from `from` on: 1 where both are of
  // one training, else 0; empty where no training deviates.
  Array same_training(const ProcessInputs& a, Eigen::Index from,
                      const ProcessInputs& b, Eigen::Index j) const;
  const Moment& moment_at(const ProcessInputs& a, double log_time,
                          std::deque<Moment>& moments) const;
  template <typename Visit>
  void for_each_column(const ProcessInputs& a, const ProcessInputs& b,
                       bool triangle, const Visit& visit) const;

  const std::vector<ProcessDimension>& dimensions_;

  bool any_unrecorded_ = false;
  Eigen::VectorXd inverse_;  // 1 / length scale
  double time_scale_;
  double residual2_;  // variances
  double learnt2_;
  double noise2_;
  double training2_;
  double constant2_;
};

}  // namespace dtune
