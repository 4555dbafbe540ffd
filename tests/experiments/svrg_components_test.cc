// Figures 3 to 5 of 002: how far classes lie apart in components, what a wrong model does to that, and the files.
#include "experiments/papers/svrg_components.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace gradstream {
namespace {

Matrix two_classes() {
  Matrix points(4, 2);
  points << 0, 1, 0, -1, 4, 2, 4, -2;
  return points;
}

TEST(SvrgComponents, ClassesLieApartAsByHand) {
  // Means (0, 0) and (4, 0), centre (2, 0): 4 * 4 over 1 + 1 + 4 + 4.
  const ClassSeparation of = class_separation(two_classes(), {0, 0, 1, 1});
  EXPECT_NEAR(of.ratio, 1.6, 1e-15);
  EXPECT_EQ(of.share, 1);
  const ClassSeparation mixed = class_separation(two_classes(), {0, 1, 1, 0});
  EXPECT_LT(mixed.ratio, of.ratio);
  EXPECT_EQ(mixed.share, 0.5);
}

TEST(SvrgComponents, TurningThemChangesNothing) {
  Matrix turn(2, 2);
  turn << 0.6, -0.8, 0.8, 0.6;
  EXPECT_NEAR(class_separation(two_classes() * turn, {0, 0, 1, 1}).ratio, 1.6, 1e-14);
}

// Runs that have found the components of every table.
Curves exact_curves() {
  Curves curves;
  for (const std::string table : {"iris", "wine", "breast_cancer"}) {
    for (const std::string preparation : {"zscore", "zrownorm"}) {
      const Matrix samples = prepare_table(read_table(table).samples, preparation);
      const Matrix model = symmetric_eigen(samples.transpose() * samples).vectors.rightCols(3);
      for (const std::string algorithm : {"2BB", "2BBS"}) {
        curves[table + "/" + preparation + "/" + algorithm].last_model = model;
      }
    }
  }
  return curves;
}

TEST(SvrgComponents, AWrongModelFails) {
  Curves curves = exact_curves();
  Judgement right;
  judge_components(curves, &right);
  EXPECT_TRUE(right.passed());
  EXPECT_EQ(right.check_count(), 9u) << "three runs of a table converge";
  for (const char* key : {"iris/zscore/2BBS", "wine/zrownorm/2BB", "breast_cancer/zrownorm/2BBS"}) {
    Matrix& model = curves.at(key).last_model;
    const Matrix kept = model;
    model.col(0).setZero();  // the third component is another
    model(0, 0) = 1;
    Judgement wrong;
    judge_components(curves, &wrong);
    EXPECT_EQ(wrong.failed_count(), 1u) << key;
    model = kept;
  }
}

TEST(SvrgComponents, WritesASampleALine) {
  const std::string folder = testing::TempDir() + "/svrg_components";
  std::filesystem::create_directories(folder);
  Curves curves = exact_curves();
  for (auto& [key, curve] : curves) {
    curve.points.resize(2);
    curve.points[1].round = 1;
    curve.points[0].measures.other = curve.points[1].measures.other = 0.25;
  }
  ASSERT_TRUE(write_angles_and_components(folder, curves));
  std::ifstream file(folder + "/components.csv");
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(line, "case,class,first,second,third");
  const Table iris = read_table("iris");
  const Matrix samples = prepare_table(iris.samples, "zscore");
  const Eigen::RowVectorXd wanted = samples.row(0) * curves.at("iris/zscore/2BB").last_model;
  std::getline(file, line);
  std::istringstream words(line);
  std::string word;
  std::getline(words, word, ',');
  EXPECT_EQ(word, "iris/zscore/2BB");
  std::getline(words, word, ',');
  EXPECT_EQ(std::stod(word), iris.labels.front());
  for (Eigen::Index c = 0; c < 3; ++c) {
    std::getline(words, word, ',');
    EXPECT_NEAR(std::stod(word), wanted(c), 1e-8);
  }
  size_t line_count = 2;
  for (; std::getline(file, line); ++line_count) {
  }
  EXPECT_EQ(line_count, 1u + 4 * (150 + 178 + 569));
  std::ifstream angles(folder + "/angle.csv");
  std::getline(angles, line);
  EXPECT_EQ(line, "case,round,angle");
  std::getline(angles, line);
  EXPECT_EQ(line, "iris/zscore/2BB,0,0.25");
  EXPECT_TRUE(std::filesystem::exists(folder + "/components.gp"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/angle.gp"));
  EXPECT_TRUE(write_angles_and_components(folder, {})) << "a part of the cases";
  EXPECT_FALSE(write_angles_and_components(folder + "/nowhere", curves));
}

}  // namespace
}  // namespace gradstream
