#include "experiments/papers/zeroth_order_floor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <span>

#include "experiments/harness/compare.h"
#include "experiments/workloads/workload.h"
#include "server/run/run_core.h"
#include "server/run/tube_constants.h"

namespace gradstream {
namespace {

// Reason: what a floor of one seed deviates by is a tenth, and five show a trend of a twentieth.
constexpr uint32_t kFloorSeedCount = 5;
// A case of repetition r has the seed of the experiment and so much times r. Reason: no two experiments of seeds below
// it share a run.
constexpr uint32_t kSeedStride = 1000;

constexpr double kSmoothing = kIsDouble ? 1e-4 : 1e-2;
constexpr Eigen::Index kRows = 16;
constexpr uint32_t kCols = 2;

std::string ending_of(uint32_t repetition, double smoothing) {
  return "/rep" + std::to_string(repetition) + (kIsDouble ? "/float64" : "/float32") + "/mu" + figure(smoothing);
}

// A case of 003's algorithm with correction, zeroth order, directions of the device's own.
Case projection_case(const std::string& key, const std::shared_ptr<const KpcaWorkload>& workload, uint32_t tau,
                     uint32_t direction_count, double local_step, uint32_t round_count) {
  Case out;
  out.key = key;
  out.parameters = gradient_stream_parameters(tau, local_step, round_count);
  RunParameters& p = out.parameters;
  p.local->solver = SolverId::kProjection;
  p.local->estimator = EstimatorId::kProjectionOneSided;
  p.wire->upload_stream = StreamKind::kTangentBlock;
  p.local->directions = DirectionKind::kSphere;
  p.local->group_count = 0;
  p.local->direction_count = direction_count;
  p.local->smoothing = static_cast<Real>(kSmoothing);
  p.local->correction_form = CorrectionForm::kLocal;
  out.workload = workload;
  return out;
}

double largest_eigenvalue(const KpcaWorkload& workload) {
  return workload.eigenvalues()(workload.eigenvalues().size() - 1);
}

uint32_t seed_of(uint32_t seed, uint32_t repetition) { return seed + kSeedStride * repetition; }

// Standard normals, their columns longer by 2, 1.8, and 0.8 down to 0.2. Reason: the two leading directions stand out,
// so that a run is at its floor after some thirty rounds.
Matrix draw_samples(uint32_t seed, Eigen::Index count) {
  Matrix samples = normals({seed, RandomDomain::kData, 0, 0, 0}, count, kRows);
  for (Eigen::Index c = 0; c < kRows; ++c) {
    samples.col(c) *= c == 0 ? 2 : c == 1 ? 1.8 : 0.8 + static_cast<double>(c - 2) * (-0.6 / (kRows - 3));
  }
  return samples;
}

// ---- The main theorem ----------------------------------------------------------------------------------------------

struct FloorSetting {
  uint32_t device_count;
  uint32_t direction_count;
  uint32_t tau;
  double work() const { return static_cast<double>(device_count) * tau * direction_count; }
};

// The first is what the others differ from, in one number each.
constexpr std::array<FloorSetting, 8> kFloorSettings = {
    {{10, 20, 5}, {5, 20, 5}, {20, 20, 5}, {40, 20, 5}, {10, 5, 5}, {10, 100, 5}, {10, 20, 1}, {10, 20, 10}}};
constexpr Eigen::Index kFloorSamples = 1000;  // of all devices together
constexpr double kWholeStep = 0.3;            // eta_g eta tau, times 1 / L
constexpr uint32_t kFloorRoundCount = 100;
constexpr uint32_t kFloorWindow = 50;  // last rounds, whose mean is the floor

std::string floor_key(const FloorSetting& setting, uint32_t repetition) {
  return "floor/n" + std::to_string(setting.device_count) + "/m" + std::to_string(setting.direction_count) + "/tau" +
         std::to_string(setting.tau) + ending_of(repetition, kSmoothing);
}

constexpr std::array<uint32_t, 4> kRootDevices = {5, 10, 20, 40};
constexpr double kRootLocalStep = 0.06;  // eta tau, times 1 / L
constexpr uint32_t kRootTau = 1;
constexpr uint32_t kRootDirections = 20;
constexpr uint32_t kRootRoundCount = 40;
constexpr uint32_t kRootEarly = 10;  // the round at which who is ahead is asked

std::string root_key(uint32_t device_count, bool has_root, uint32_t repetition) {
  return "root/n" + std::to_string(device_count) + "/eg" + (has_root ? "root" : "1") +
         ending_of(repetition, kSmoothing);
}

void add_main_cases(uint32_t seed, uint32_t repetition, std::vector<Case>* cases) {
  const uint32_t own_seed = seed_of(seed, repetition);
  const Matrix samples = draw_samples(own_seed, kFloorSamples);
  std::array<std::shared_ptr<const KpcaWorkload>, kRootDevices.size()> workloads;
  for (size_t i = 0; i < workloads.size(); ++i) {
    const Eigen::Index share = kFloorSamples / kRootDevices[i];
    std::vector<Matrix> parts;
    for (uint32_t device = 0; device < kRootDevices[i]; ++device) {
      parts.push_back(samples.middleRows(device * share, share));
    }
    workloads[i] = std::make_shared<KpcaWorkload>(parts, ManifoldId::kStiefel, kCols, own_seed);
  }
  const auto workload_of = [&](uint32_t device_count) {
    const auto found = std::find(kRootDevices.begin(), kRootDevices.end(), device_count);
    return workloads[static_cast<size_t>(found - kRootDevices.begin())];
  };
  for (const FloorSetting& setting : kFloorSettings) {
    const auto workload = workload_of(setting.device_count);
    cases->push_back(projection_case(floor_key(setting, repetition), workload, setting.tau, setting.direction_count,
                                     kWholeStep / (setting.tau * largest_eigenvalue(*workload)), kFloorRoundCount));
    cases->back().parameters.local->batch_mode = BatchMode::kPerDirection;
    cases->back().seed = own_seed;
  }
  for (const uint32_t device_count : kRootDevices) {
    for (const bool has_root : {false, true}) {
      const auto workload = workload_of(device_count);
      cases->push_back(projection_case(root_key(device_count, has_root, repetition), workload, kRootTau,
                                       kRootDirections, kRootLocalStep / (kRootTau * largest_eigenvalue(*workload)),
                                       kRootRoundCount));
      cases->back().parameters.local->batch_mode = BatchMode::kPerDirection;
      cases->back().parameters.steps->server_step = static_cast<Real>(has_root ? std::sqrt(device_count) : 1);
      cases->back().seed = own_seed;
    }
  }
}

// The mean over rounds 1 to `round` of the square of 003's measure of optimality, which the theorem bounds.
double average_optimality(const Curve& curve, uint32_t round) {
  double sum = 0;
  uint32_t count = 0;
  for (const CurvePoint& point : curve.points) {
    if (point.round >= 1 && point.round <= round) {
      sum += point.measures.optimality * point.measures.optimality;
      ++count;
    }
  }
  return sum / count;
}

struct Floor {
  double excess = 0;   // of the last kFloorWindow rounds
  double average = 0;  // average_optimality() of all rounds
  double last = 0;     // square of the measure at the last round
};

// Means over the repetitions.
Floor floor_of(const Curves& curves, const FloorSetting& setting) {
  Floor floor;
  for (uint32_t repetition = 0; repetition < kFloorSeedCount; ++repetition) {
    const Curve& curve = curves.at(floor_key(setting, repetition));
    const double last = curve.points.back().measures.optimality;
    floor.excess += curve.mean_excess(kFloorWindow) / kFloorSeedCount;
    floor.average += average_optimality(curve, kFloorRoundCount) / kFloorSeedCount;
    floor.last += last * last / kFloorSeedCount;
  }
  return floor;
}

std::string name_of(const FloorSetting& setting) {
  return "n = " + std::to_string(setting.device_count) + ", m = " + std::to_string(setting.direction_count) +
         ", tau = " + std::to_string(setting.tau);
}

void judge_main_theorem(const Curves& curves, Judgement* judgement) {
  judgement->note("| n | m | tau | floor | floor n tau m | square of the measure: average | at the end |");
  judgement->note("|---|---|---|---|---|---|---|");
  const double base = floor_of(curves, kFloorSettings.front()).excess * kFloorSettings.front().work();
  for (const FloorSetting& setting : kFloorSettings) {
    const Floor floor = floor_of(curves, setting);
    judgement->note("| " + std::to_string(setting.device_count) + " | " + std::to_string(setting.direction_count) +
                    " | " + std::to_string(setting.tau) + " | " + figure(floor.excess) + " | " +
                    figure(floor.excess * setting.work()) + " | " + figure(floor.average) + " | " + figure(floor.last) +
                    " |");
    // One over a root, in place of one over the number, is off by 1.41 at least.
    constexpr double kBand = 1.3;
    judgement->check_near("floor times n tau m, " + name_of(setting) + " over " + name_of(kFloorSettings.front()),
                          floor.excess * setting.work() / base, 1, kBand);
  }
  std::array<double, 2> at_floor = {};
  std::array<double, 2> early = {};
  for (const size_t i : {0, 3}) {  // n = 10 and 40
    for (uint32_t repetition = 0; repetition < kFloorSeedCount; ++repetition) {
      const Curve& curve = curves.at(floor_key(kFloorSettings[i], repetition));
      early[i == 0 ? 0 : 1] += average_optimality(curve, kFloorRoundCount / 10) / kFloorSeedCount;
      at_floor[i == 0 ? 0 : 1] += average_optimality(curve, kFloorRoundCount) / kFloorSeedCount;
    }
  }
  judgement->claim("the average of the squared measure of optimality falls with the rounds, and with n",
                   at_floor[0] < early[0] / 2 && at_floor[1] < early[1] / 2 && at_floor[1] < at_floor[0],
                   "over 10 and 100 rounds: n = 10 " + figure(early[0]) + " and " + figure(at_floor[0]) + ", n = 40 " +
                       figure(early[1]) + " and " + figure(at_floor[1]));
}

void judge_roots(const Curves& curves, Judgement* judgement) {
  judgement->note("| n | gap at round 10, eta_g = 1 | eta_g = sqrt(n) | the quotient |");
  judgement->note("|---|---|---|---|");
  for (const uint32_t device_count : kRootDevices) {
    std::vector<bool> holds;
    double one = 0;
    double root = 0;
    for (uint32_t repetition = 0; repetition < kFloorSeedCount; ++repetition) {
      const double with_one = curves.at(root_key(device_count, false, repetition)).excess_at(kRootEarly);
      const double with_root = curves.at(root_key(device_count, true, repetition)).excess_at(kRootEarly);
      holds.push_back(with_root < with_one);
      one += with_one / kFloorSeedCount;
      root += with_root / kFloorSeedCount;
    }
    judgement->note("| " + std::to_string(device_count) + " | " + figure(one) + " | " + figure(root) + " | " +
                    figure(one / root) + " |");
    judgement->claim_seeds(
        "eta_g = sqrt(n) is faster at first, n = " + std::to_string(device_count) + ", same local step", holds);
  }
}

// ---- Noisy evaluations ---------------------------------------------------------------------------------------------

constexpr uint32_t kNoiseDevices = 5;
constexpr uint32_t kNoiseDirections = 20;
constexpr uint32_t kNoiseTau = 2;
constexpr uint32_t kNoiseRoundCount = 160;
constexpr uint32_t kNoiseWindow = 60;
constexpr double kNoiseWholeStep = 0.5;  // eta tau, times 1 / L
constexpr Eigen::Index kNoiseSamples = 40;
constexpr std::array<double, 2> kNoises = {1e-5, 1e-3};
// Of the first noise; of another one times the root of the quotient.
constexpr std::array<double, 5> kNoiseSmoothings = {6e-4, 1.2e-3, 2.4e-3, 4.8e-3, 9.6e-3};

double noise_smoothing(double noise, size_t i) { return kNoiseSmoothings[i] * std::sqrt(noise / kNoises.front()); }

std::string noise_key(double noise, double smoothing, uint32_t repetition) {
  return "noise/s" + figure(noise) + ending_of(repetition, smoothing);
}

// One device's losses, with noise: evaluation q, from 0, has normal q % kChunk of the data stream (kNoiseStream,
// device, q / kChunk).
struct NoisyDevice {
  static constexpr uint32_t kChunk = 256;
  static constexpr uint32_t kNoiseStream = 77;

  Problem inner;
  double noise = 0;
  uint32_t seed = 0;
  uint32_t device = 0;
  mutable uint64_t evaluation_count = 0;
  mutable Matrix chunk = {};

  double next_noise() const {
    const auto at = static_cast<Eigen::Index>(evaluation_count % kChunk);
    if (at == 0) {
      const auto number = static_cast<uint32_t>(evaluation_count / kChunk);
      chunk = normals({seed, RandomDomain::kData, kNoiseStream, device, number}, 1, kChunk);
    }
    ++evaluation_count;
    return noise * chunk(0, at);
  }
};

const NoisyDevice& noisy(const void* context) { return *static_cast<const NoisyDevice*>(context); }

constexpr ProblemOps kNoisyOps = {
    .name = "kpca",
    .sample_count = [](const void* context) { return kKpcaOps.sample_count(noisy(context).inner.context); },
    .check_shape = [](const void* context,
                      Shape shape) { return kKpcaOps.check_shape(noisy(context).inner.context, shape); },
    .scratch_size = [](const void* context,
                       Shape shape) { return kKpcaOps.scratch_size(noisy(context).inner.context, shape); },
    .loss = [](const void* context, Shape shape, const Real* x, Batch batch, Arena& arena) -> Result<Real> {
      const NoisyDevice& device = noisy(context);
      const Result<Real> loss = kKpcaOps.loss(device.inner.context, shape, x, batch, arena);
      GS_TRY(loss.status());
      return loss.value() + static_cast<Real>(device.next_noise());
    },
    .gradient = nullptr};

// The same samples on every device. Reason: then no device has a gradient of its own at the solution, whose estimate
// would add a floor to that of the noise.
class NoisyWorkload : public KpcaWorkload {
 public:
  NoisyWorkload(const Matrix& samples, double noise, uint32_t seed)
      : KpcaWorkload(std::vector<Matrix>(kNoiseDevices, samples), ManifoldId::kStiefel, kCols, seed),
        noise_(noise),
        seed_(seed) {}

  // Each call begins the device's noise anew. Reason: runs of one case may go on at the same time.
  Problem problem(uint32_t device) const override {
    const std::lock_guard lock(mutex_);
    devices_.push_back({KpcaWorkload::problem(device), noise_, seed_, device});
    return {&kNoisyOps, &devices_.back()};
  }

 private:
  double noise_;
  uint32_t seed_;
  mutable std::mutex mutex_;
  mutable std::deque<NoisyDevice> devices_;
};

// The root mean square of the second derivative of F(P_M(x* + t u)) over directions u of the unit sphere, and L.
struct Bend {
  double curvature = 0;
  double largest = 0;
};

Bend bend_of(uint32_t seed) {
  constexpr uint32_t kDrawCount = 400;
  constexpr uint32_t kBendStream = 78;
  constexpr double kLength = 1e-3;
  const Matrix samples = draw_samples(seed, kNoiseSamples);
  const Matrix covariance = samples.transpose() * samples / static_cast<double>(kNoiseSamples);
  const Eigenpairs pairs = symmetric_eigen(covariance);
  const Matrix best = orthonormal(pairs.vectors.rightCols(kCols));
  const auto loss = [&](const Matrix& x) { return -0.5 * (x.transpose() * covariance * x).trace(); };
  double sum = 0;
  for (uint32_t draw = 0; draw < kDrawCount; ++draw) {
    const Matrix u = normals({seed, RandomDomain::kData, kBendStream, 0, draw}, kRows, kCols);
    const double second = 2 * (loss(polar(best + kLength / u.norm() * u)) - loss(best)) / (kLength * kLength);
    sum += second * second / kDrawCount;
  }
  return {std::sqrt(sum), pairs.values(pairs.values.size() - 1)};
}

void add_noise_cases(uint32_t seed, uint32_t repetition, std::vector<Case>* cases) {
  const uint32_t own_seed = seed_of(seed, repetition);
  const Matrix samples = draw_samples(own_seed, kNoiseSamples);
  for (const double noise : kNoises) {
    const auto workload = std::make_shared<NoisyWorkload>(samples, noise, own_seed);
    for (size_t i = 0; i < kNoiseSmoothings.size(); ++i) {
      const double smoothing = noise_smoothing(noise, i);
      cases->push_back(projection_case(noise_key(noise, smoothing, repetition), workload, kNoiseTau, kNoiseDirections,
                                       kNoiseWholeStep / (kNoiseTau * largest_eigenvalue(*workload)),
                                       kNoiseRoundCount));
      cases->back().parameters.local->batch_mode = BatchMode::kAll;
      cases->back().parameters.local->smoothing = static_cast<Real>(smoothing);
      cases->back().seed = own_seed;
      cases->back().has_client_problem = false;
    }
  }
}

// What an estimate's variance is of, near the solution: 2 noise^2 / mu^2 of two losses, and the second derivative's
// share (h mu / 2)^2.
double theory_of(double noise, double smoothing, double curvature) {
  return 2 * noise * noise / (smoothing * smoothing) + std::pow(curvature * smoothing / 2, 2);
}

// The floor over the theory's, and the smoothing at which the two branches of the floor meet; means over repetitions.
struct NoiseFigures {
  std::array<double, kNoiseSmoothings.size()> floors = {};
  std::array<double, kNoiseSmoothings.size()> theories = {};
  double met = 1;     // measured: (a / b)^(1/4) of a / mu^2 and b mu^2
  double wanted = 1;  // theory: (8 noise^2 / h^2)^(1/4)
  double advised = 1;
};

NoiseFigures noise_figures(const Curves& curves, double noise, std::span<const Bend> bends, const RunParameters& run) {
  NoiseFigures out;
  for (uint32_t repetition = 0; repetition < bends.size(); ++repetition) {
    std::array<double, kNoiseSmoothings.size()> floors = {};
    const Bend& bend = bends[repetition];
    for (size_t i = 0; i < floors.size(); ++i) {
      const double smoothing = noise_smoothing(noise, i);
      floors[i] = curves.at(noise_key(noise, smoothing, repetition)).mean_excess(kNoiseWindow);
      out.floors[i] += floors[i] / static_cast<double>(bends.size());
      out.theories[i] += theory_of(noise, smoothing, bend.curvature) / static_cast<double>(bends.size());
    }
    const double least = noise_smoothing(noise, 0);
    const double most = noise_smoothing(noise, floors.size() - 1);
    const double share = 1 / static_cast<double>(bends.size());
    out.met *= std::pow(floors.front() * least * least / (floors.back() / (most * most)), 0.25 * share);
    out.wanted *= std::pow(suited_smoothing(run, noise, bend.curvature), share);
    out.advised *= std::pow(suited_smoothing(run, noise, bend.largest), share);
  }
  return out;
}

void judge_noise(const Curves& curves, uint32_t seed, Judgement* judgement) {
  std::vector<Bend> bends;
  for (uint32_t repetition = 0; repetition < kFloorSeedCount; ++repetition) {
    bends.push_back(bend_of(seed_of(seed, repetition)));
  }
  RunParameters run;
  run.local->estimator = EstimatorId::kProjectionOneSided;
  judgement->note("| noise of a loss | smoothing | floor | floor over theory |");
  judgement->note("|---|---|---|---|");
  double least_quotient = std::numeric_limits<double>::infinity();
  double most_quotient = 0;
  std::array<double, kNoises.size()> best = {};
  for (size_t n = 0; n < kNoises.size(); ++n) {
    const double noise = kNoises[n];
    const NoiseFigures figures = noise_figures(curves, noise, bends, run);
    for (size_t i = 0; i < figures.floors.size(); ++i) {
      const double quotient = figures.floors[i] / figures.theories[i];
      least_quotient = std::fmin(least_quotient, quotient);
      most_quotient = std::fmax(most_quotient, quotient);
      judgement->note("| " + figure(noise) + " | " + figure(noise_smoothing(noise, i)) + " | " +
                      figure(figures.floors[i]) + " | " + figure(quotient) + " |");
    }
    best[n] = *std::min_element(figures.floors.begin(), figures.floors.end());
    // A smoothing of noise^(1/3), as the two-sided estimator has it, is off by 1.5 at least.
    judgement->check_near("noise " + figure(noise) + ", best smoothing over sqrt(2 sqrt(2) noise / h)",
                          figures.met / figures.wanted, 1, 1.25);
    const double t = figures.advised / figures.met;
    judgement->check("noise " + figure(noise) + ", floor at the smoothing that advice names, " +
                         figure(figures.advised) + ", over the least: " + figure((t * t + 1 / (t * t)) / 2) +
                         ", at most 1.5",
                     (t * t + 1 / (t * t)) / 2 < 1.5);
  }
  judgement->check_near("floor over 2 noise^2 / mu^2 + (h mu / 2)^2: the largest quotient over the least one",
                        most_quotient / least_quotient, 1, 1.6);
  const double factor = kNoises.back() / kNoises.front();
  judgement->claim("with noisy evaluations the algorithm comes down to a floor in proportion to the noise",
                   best.back() / best.front() < 1.5 * factor && best.back() / best.front() > factor / 1.5,
                   "noise " + figure(kNoises.front()) + " and " + figure(kNoises.back()) +
                       ", best smoothing: " + figure(best.front()) + " and " + figure(best.back()));
}

}  // namespace

void add_floor_cases(uint32_t seed, std::vector<Case>* cases) {
  for (uint32_t repetition = 0; repetition < kFloorSeedCount; ++repetition) {
    add_main_cases(seed, repetition, cases);
    add_noise_cases(seed, repetition, cases);
  }
}

void judge_floors(const Curves& curves, uint32_t seed, Judgement* judgement) {
  judge_main_theorem(curves, judgement);
  judge_roots(curves, judgement);
  judge_noise(curves, seed, judgement);
}

bool write_floors(const std::string& folder, const Curves& curves) {
  const auto has_all = [&](auto key_of) {
    for (uint32_t repetition = 0; repetition < kFloorSeedCount; ++repetition) {
      const auto found = curves.find(key_of(repetition));
      if (found == curves.end() || found->second.points.empty()) {
        return false;
      }
    }
    return true;
  };
  std::ofstream floors(folder + "/floor.csv");
  floors << "n,m,tau,floor,average,last\n";
  bool has_floors = false;
  for (const FloorSetting& setting : kFloorSettings) {
    if (has_all([&](uint32_t repetition) { return floor_key(setting, repetition); })) {
      const Floor floor = floor_of(curves, setting);
      floors << setting.device_count << ',' << setting.direction_count << ',' << setting.tau << ','
             << figure(floor.excess, 9) << ',' << figure(floor.average, 9) << ',' << figure(floor.last, 9) << '\n';
      has_floors = true;
    }
  }
  std::ofstream noises(folder + "/noise.csv");
  noises << "noise,smoothing,floor\n";
  bool has_noises = false;
  for (const double noise : kNoises) {
    for (size_t i = 0; i < kNoiseSmoothings.size(); ++i) {
      const double smoothing = noise_smoothing(noise, i);
      if (has_all([&](uint32_t repetition) { return noise_key(noise, smoothing, repetition); })) {
        double floor = 0;
        for (uint32_t repetition = 0; repetition < kFloorSeedCount; ++repetition) {
          floor += curves.at(noise_key(noise, smoothing, repetition)).mean_excess(kNoiseWindow) / kFloorSeedCount;
        }
        noises << figure(noise) << ',' << figure(smoothing) << ',' << figure(floor, 9) << '\n';
        has_noises = true;
      }
    }
  }
  floors.flush();
  noises.flush();
  if (!has_floors || !has_noises) {
    return floors.good() && noises.good();
  }
  std::ofstream script(folder + "/floor.gp");
  script << "set terminal svg size 940,440 noenhanced background 'white' font 'sans,12'\nset output "
            "'d_zofl_floor.svg'\nset datafile separator ','\nset logscale xy\nset format '%.0e'\nset grid\n"
            "set ylabel 'excess F(x) - F*'\nset multiplot layout 1,2 title 'd_zofl: what noise leaves'\n"
            "set key left top\nset xlabel '1 / (n tau m)'\nset title 'one sample a direction, the same eta_g eta tau'\n"
            "stats 'floor.csv' skip 1 every ::0::0 using ($4*$1*$2*$3) nooutput\n"
            "plot 'floor.csv' skip 1 using (1/($1*$2*$3)):4 with points pointtype 6 title 'floor, mean of 5 seeds', "
            "STATS_max * x with lines dashtype 2 linecolor rgb '#0072b2' title 'in proportion to 1 / (n tau m)'\n"
            "set key center top\nset xlabel 'smoothing mu'\nset title 'noise in each loss'\nplot ";
  const char* separator = "";
  for (const double noise : kNoises) {
    script << separator << "'noise.csv' skip 1 using ($1 == " << figure(noise)
           << " ? $2 : NaN):3 with linespoints pointtype 6 title 'noise " << figure(noise) << "'";
    separator = ", ";
  }
  script << "\nunset multiplot\n";
  script.flush();
  return floors.good() && noises.good() && script.good();
}

}  // namespace gradstream
