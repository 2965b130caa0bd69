#include "costs_table.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace dwell::tool {
namespace {

DeviceCosts made_up(bool measured) {
  return {.device = "cuda:0",
          .name = "Made Up 100",
          .measured = measured,
          .kept = measured,
          .figures = {{"step_ns", measured ? 85.25 : 100, 100, "a step"}, {"most_elements", 32768, 32768, "elements of a step"}}};
}

std::string printed(const DeviceCosts& costs) {
  std::ostringstream out;
  print_text(out, costs);
  return out.str();
}

TEST(CostsTableTest, SaysWhetherFiguresAreMeasured) {
  EXPECT_EQ(printed(made_up(true)),
            "costs of cuda:0 measured: figures by which programs are planned for Made Up 100\n"
            "  step_ns        85.25 (default 100)       a step\n"
            "  most_elements  32768 (default 32768)     elements of a step\n");
  DeviceCosts lost = made_up(true);
  lost.kept = false;
  EXPECT_TRUE(printed(lost).starts_with("costs of cuda:0 measured, not kept: "));
  EXPECT_EQ(printed(made_up(false)),
            "costs of cuda:0 defaults: figures by which programs are planned for Made Up 100\n"
            "  step_ns        100                       a step\n"
            "  most_elements  32768                     elements of a step\n");
}

TEST(CostsTableTest, JsonHasFiguresByName) {
  const nlohmann::ordered_json json = json_of(made_up(true));
  EXPECT_EQ(json["device"], "cuda:0");
  EXPECT_EQ(json["measured"], true);
  EXPECT_EQ(json["figures"]["step_ns"]["value"], 85.25);
  EXPECT_EQ(json["figures"]["step_ns"]["default"], 100.0);
  EXPECT_EQ(json["figures"]["most_elements"]["what"], "elements of a step");
}

}  // namespace
}  // namespace dwell::tool
