#include "planted.h"
#include "testing/own_races.h"

int main(int count, char** words) {
    const auto program = programs().find(count > 1 ? words[1] : "");
    if (program == programs().end()) return 98;
    mended = count > 2;
    const World world;
    program->second();
}
