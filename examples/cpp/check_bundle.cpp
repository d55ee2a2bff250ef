// Loads a policy bundle without Python: its hashes, its graphs, its golden vector (docs/contract.md).
//
//     g++ -std=c++17 -O2 check_bundle.cpp -I$ORT/include -L$ORT/lib -lonnxruntime -o check_bundle
//     ./check_bundle policies/pretrained/iap
//
// $ORT is a release of onnxruntime, or wherever its headers and library are.
#include <onnxruntime_c_api.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>

#include "json.h"
#include "sha256.h"

const OrtApi* ort = OrtGetApiBase()->GetApi(ORT_API_VERSION);

void check(OrtStatus* status) {
    if (status) throw std::runtime_error(ort->GetErrorMessage(status));
}

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path + ": cannot be read");
    std::stringstream content;
    content << file.rdbuf();
    return content.str();
}

Json read_json(const std::string& path) {
    const std::string text = read(path);
    const char* p = text.c_str();
    return parse(p);
}

// The contract's own hash is that of its canonical text without the hash; the others are of files.
void check_hashes(const std::string& folder, Json contract) {
    const std::string own = contract.at("sha256").string();
    contract.members.erase("\"sha256\"");
    if (sha256(contract.canonical()) != own) throw std::runtime_error("contract.json was changed");
    for (auto& [name, hash] : contract.at("files").members) {
        const std::string file = name.substr(1, name.size() - 2);
        if (sha256(read(folder + "/" + file)) != hash.string())
            throw std::runtime_error(file + " is not the one the contract was made for");
    }
}

// The largest difference between what a graph puts out and what it should.
float golden_difference(OrtEnv* env, const std::string& path, const Json& golden) {
    OrtSessionOptions* options;
    OrtSession* session;
    OrtMemoryInfo* memory;
    check(ort->CreateSessionOptions(&options));
    check(ort->CreateSession(env, path.c_str(), options, &session));
    check(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));

    std::vector<std::string> names;  // inputs, then outputs, without their quotes
    for (auto* side : {"inputs", "outputs"})
        for (auto& [name, _] : golden.at(side).members) names.push_back(name.substr(1, name.size() - 2));
    std::vector<const char*> pointers;
    for (auto& name : names) pointers.push_back(name.c_str());

    const size_t inputs = golden.at("inputs").members.size(), outputs = names.size() - inputs;
    std::vector<std::vector<float>> floats(inputs);
    std::vector<std::vector<uint8_t>> bytes(inputs);
    std::vector<OrtValue*> given(inputs), got(outputs, nullptr);
    for (size_t i = 0; i < inputs; ++i) {
        std::vector<int64_t> shape;
        golden.at("inputs").at(names[i]).flatten(floats[i], &shape);
        bytes[i].assign(floats[i].begin(), floats[i].end());
        const bool image = names[i] == "image";  // uint8; everything else is float32
        check(ort->CreateTensorWithDataAsOrtValue(
            memory, image ? (void*)bytes[i].data() : (void*)floats[i].data(),
            floats[i].size() * (image ? 1 : sizeof(float)), shape.data(), shape.size(),
            image ? ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &given[i]));
    }
    check(ort->Run(session, nullptr, pointers.data(), given.data(), inputs, pointers.data() + inputs,
                   outputs, got.data()));

    float worst = 0;
    for (size_t i = 0; i < outputs; ++i) {
        std::vector<float> wanted;
        golden.at("outputs").at(names[inputs + i]).flatten(wanted);
        float* values;
        check(ort->GetTensorMutableData(got[i], (void**)&values));
        for (size_t j = 0; j < wanted.size(); ++j) worst = std::max(worst, std::fabs(values[j] - wanted[j]));
    }
    return worst;  // what is not released here ends with the program
}

int main(int count, char** arguments) try {
    const std::string folder = count > 1 ? arguments[1] : ".";
    const Json contract = read_json(folder + "/contract.json");
    if (contract.at("schema").text != "2") throw std::runtime_error("expected a contract of schema 2");
    check_hashes(folder, contract);
    OrtEnv* env;
    check(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "pixelgait", &env));
    const float tolerance = std::stof(contract.at("golden_tolerance").text);
    for (auto& [name, golden] : read_json(folder + "/golden.json").members) {
        const std::string file = name.substr(1, name.size() - 2);
        const float worst = golden_difference(env, folder + "/" + file, golden);
        std::cout << file << ": golden vector within " << worst << "\n";
        if (!(worst <= tolerance)) throw std::runtime_error(file + ": beyond the tolerance");
    }
    std::cout << folder << " is as it was exported\n";
} catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
}
