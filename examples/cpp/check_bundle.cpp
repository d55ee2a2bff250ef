// Checks a policy bundle without Python: hashes, graphs, tensor names and shapes, golden vector (docs/contract.md).
// Build and run it in the checkout:
//
//     g++ -std=c++17 -O2 examples/cpp/check_bundle.cpp -I$ORT/include -L$ORT/lib -Wl,-rpath,$ORT/lib -lonnxruntime -o check_bundle
//     ./check_bundle policies/pretrained/iap
//
// $ORT is an unpacked release of onnxruntime, or any folder with its headers in include and its library in lib; -rpath tells the
// program where the library is. Python's wheel of onnxruntime has the library under a versioned name and no headers. To link
// against it, make two symlinks in $ORT/lib, and take onnxruntime_c_api.h from a release or from Debian's libonnxruntime-dev:
//   CAPI=$(python -c "import onnxruntime, os; print(os.path.dirname(onnxruntime.__file__) + '/capi')")
//   ln -s $CAPI/libonnxruntime.so.1.* $ORT/lib/libonnxruntime.so
//   ln -s $CAPI/libonnxruntime.so.1.* $ORT/lib/libonnxruntime.so.1
#include <onnxruntime_c_api.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>

#include "json.h"
#include "sha256.h"

const char* GRAPHS[] = {"high_level.onnx", "low_level.onnx"};
const char* GOLDEN = "golden.json";
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

// The contract's own hash is that of its canonical text without the hash; the other hashes are of files.
void check_hashes(const std::string& folder, Json contract) {
    const std::string own = contract.at("sha256").string();
    contract.members.erase("\"sha256\"");
    if (sha256(contract.canonical()) != own) throw std::runtime_error("contract.json was changed");
    for (const std::string file : {GRAPHS[0], GRAPHS[1], GOLDEN})
        if (sha256(read(folder + "/" + file)) != contract.at("files").at(file).string())
            throw std::runtime_error(file + " is not the one the contract was made for");
}

// Type and shape of a tensor in the contract and in a graph, such as "uint8 [32, 32, 3]".
std::string description(const Json& tensor) { return tensor.at("type").string() + " " + tensor.at("shape").canonical(); }

std::string description(const OrtTypeInfo* info) {
    const OrtTensorTypeAndShapeInfo* tensor;
    ONNXTensorElementDataType type;
    size_t rank;
    check(ort->CastTypeInfoToTensorInfo(info, &tensor));
    if (!tensor) return "no tensor";
    check(ort->GetTensorElementType(tensor, &type));
    check(ort->GetDimensionsCount(tensor, &rank));
    std::vector<int64_t> shape(rank);
    check(ort->GetDimensions(tensor, shape.data(), rank));
    std::string text;
    for (int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
    const char* kind = type == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8   ? "uint8"
                       : type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT ? "float32"
                                                                     : "another type";
    return kind + (" [" + text + "]");
}

// Checks names, types and shapes of a graph's inputs and outputs against the contract.
void check_tensors(const OrtSession* session, const std::string& file, const Json& expected) {
    OrtAllocator* allocator;
    check(ort->GetAllocatorWithDefaultOptions(&allocator));
    for (bool in : {true, false}) {
        const std::string side = in ? "input" : "output";
        auto missing = expected.at(side + "s").members;  // not found in the graph yet
        size_t count;
        check((in ? ort->SessionGetInputCount : ort->SessionGetOutputCount)(session, &count));
        for (size_t i = 0; i < count; ++i) {
            char* name;
            OrtTypeInfo* info;
            check((in ? ort->SessionGetInputName : ort->SessionGetOutputName)(session, i, allocator, &name));
            check((in ? ort->SessionGetInputTypeInfo : ort->SessionGetOutputTypeInfo)(session, i, &info));
            const auto found = missing.find('"' + std::string(name) + '"');
            const std::string wanted = found == missing.end() ? "missing" : description(found->second);
            if (description(info) != wanted)
                throw std::runtime_error(file + ": " + side + " '" + name + "' is " + wanted +
                                         " in the contract, " + description(info) + " in the graph");
            missing.erase(found);
        }
        if (!missing.empty())
            throw std::runtime_error(file + ": " + side + " " + missing.begin()->first +
                                     " is missing in the graph");
    }
}

OrtSession* open(OrtEnv* env, const std::string& path) {
    OrtSessionOptions* options;
    OrtSession* session;
    check(ort->CreateSessionOptions(&options));
    check(ort->CreateSession(env, path.c_str(), options, &session));
    return session;
}

// Checks that the golden vector has exactly the tensors of the contract: an output that it lacks would not be checked.
void check_names(const std::string& file, const Json& expected, const Json& golden) {
    for (auto* side : {"inputs", "outputs"})
        for (auto& [one, other] : {std::pair(&expected, &golden), std::pair(&golden, &expected)})
            for (auto& [name, _] : one->at(side).members)
                if (!other->at(side).members.count(name))
                    throw std::runtime_error(std::string(GOLDEN) + ": " + file + " has other " + side +
                                             " than in the contract: " + name);
}

// The largest difference between the outputs of a graph and the golden ones; `types` are those of its inputs.
float golden_difference(OrtSession* session, const Json& types, const Json& golden) {
    OrtMemoryInfo* memory;
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
        const bool byte = types.at(names[i]).at("type").string() == "uint8";
        check(ort->CreateTensorWithDataAsOrtValue(
            memory, byte ? (void*)bytes[i].data() : (void*)floats[i].data(),
            floats[i].size() * (byte ? 1 : sizeof(float)), shape.data(), shape.size(),
            byte ? ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 : ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &given[i]));
    }
    check(ort->Run(session, nullptr, pointers.data(), given.data(), inputs, pointers.data() + inputs,
                   outputs, got.data()));

    float worst = 0;
    for (size_t i = 0; i < outputs; ++i) {
        std::vector<float> wanted;
        golden.at("outputs").at(names[inputs + i]).flatten(wanted);
        float* values;
        OrtTensorTypeAndShapeInfo* info;
        size_t size;
        check(ort->GetTensorTypeAndShape(got[i], &info));
        check(ort->GetTensorShapeElementCount(info, &size));
        if (size != wanted.size())
            throw std::runtime_error(names[inputs + i] + ": " + std::to_string(wanted.size()) + " golden values, " +
                                     std::to_string(size) + " from the graph");
        check(ort->GetTensorMutableData(got[i], (void**)&values));
        for (size_t j = 0; j < wanted.size(); ++j) {
            const float difference = std::fabs(values[j] - wanted[j]);
            if (difference > worst || std::isnan(difference)) worst = difference;  // NaN stays
        }
    }
    return worst;  // the rest is released with the program
}

int main(int count, char** arguments) try {
    if (count != 2) {
        std::cerr << "usage: " << arguments[0] << " BUNDLE   (a folder with contract.json)\n";
        return 2;
    }
    const std::string folder = arguments[1];
    const Json contract = read_json(folder + "/contract.json");
    if (contract.at("schema").text != "5") throw std::runtime_error("expected a contract of schema 5");
    check_hashes(folder, contract);
    OrtEnv* env;
    check(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "pixelgait", &env));
    const float tolerance = contract.at("golden_tolerance").number();
    const Json vector = read_json(folder + "/" + GOLDEN);
    for (const std::string file : GRAPHS) {
        const Json &expected = contract.at("graphs").at(file), &golden = vector.at(file);
        OrtSession* session = open(env, folder + "/" + file);
        check_tensors(session, file, expected);
        check_names(file, expected, golden);
        const float worst = golden_difference(session, expected.at("inputs"), golden);
        std::cout << file << ": golden vector within " << worst << "\n";
        if (!(worst <= tolerance)) throw std::runtime_error(file + ": beyond the tolerance");
    }
    std::cout << folder << " is as it was exported\n";
} catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
}
