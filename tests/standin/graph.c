/* Graphs: nodes in the order in which they were added, which serves as their order of
 * execution; of all kinds of nodes only those of memory do anything. */
#include "sim.h"

static struct sim_graph_memory *memories;
static uint64_t graph_ids, node_ids;

struct sim_graph_memory *sim_graph_memory_find(uint64_t address)
{
    struct sim_graph_memory *memory;
    HASH_FIND(hh, memories, &address, sizeof(address), memory);
    return memory;
}

static void memory_check_gone(struct sim_graph_memory *memory)
{
    if (memory->live || memory->references)
        return;
    HASH_DEL(memories, memory);
    sim_address_give(memory->address, memory->bytes, false);
    free(memory);
}

void sim_graph_memory_free(struct sim_graph_memory *memory)
{
    if (!memory->live)
        return;
    memory->live = false;
    memory->card->graph_live -= memory->bytes;
    memory->card->blocks--;
    memory_check_gone(memory);
}

void sim_graph_memory_drop(struct sim_graph_memory *memory)
{
    memory->references--;
    memory_check_gone(memory);
}

struct sim_graph *sim_graph_new(void)
{
    struct sim_graph *graph = sim_new(sizeof(*graph));
    graph->id = ++graph_ids;
    sim_object_add(graph, SIM_GRAPH);
    return graph;
}

static void node_end(struct sim_node *node)
{
    if (node->memory)
        sim_graph_memory_drop(node->memory);
    for (unsigned i = 0; i < node->child_count; i++)
        sim_graph_end((struct sim_graph *)(void *)node->children[i]);
    free(node->children);
    sim_object_remove(node);
    free(node);
}

void sim_graph_end(struct sim_graph *graph)
{
    while (graph->nodes) {
        struct sim_node *node = graph->nodes;
        graph->nodes = node->next;
        node_end(node);
    }
    sim_object_remove(graph);
    free(graph->edges);
    free(graph);
}

void sim_node_end(struct sim_node *node)
{
    struct sim_graph *graph = node->graph;
    struct sim_node **at = &graph->nodes;
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    graph->count--;
    graph->last = graph->nodes;
    while (graph->last && graph->last->next)
        graph->last = graph->last->next;
    sim_edges_of_node_end(node);
    node_end(node);
}

bool sim_graph_has(const struct sim_graph *graph, bool memory, bool conditional)
{
    for (const struct sim_node *node = graph->nodes; node; node = node->next) {
        if ((memory && node->memory) ||
            (conditional && node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL))
            return true;
        for (unsigned i = 0; i < node->child_count; i++)
            if (sim_graph_has((const struct sim_graph *)(void *)node->children[i], memory,
                              conditional))
                return true;
    }
    return false;
}

struct sim_node *sim_node_add(struct sim_graph *graph, CUgraphNodeType type)
{
    struct sim_node *node = sim_new(sizeof(*node));
    node->id = ++node_ids;
    node->graph = graph;
    node->type = type;
    if (graph->last)
        graph->last->next = node;
    else
        graph->nodes = node;
    graph->last = node;
    graph->count++;
    sim_object_add(node, SIM_NODE);
    return node;
}

/* A child graph that was copied does not. The body of a conditional node does, and then the
 * instantiation refuses it (measured of allocations). */
static bool takes_memory_nodes(const struct sim_graph *graph)
{
    return !graph->owner || graph->moved ||
           graph->owner->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

CUresult sim_node_add_alloc(struct sim_graph *graph, struct sim_card *card, uint64_t bytes,
                            struct sim_node **result)
{
    uint64_t size;
    struct sim_graph_memory *memory;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!takes_memory_nodes(graph))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (bytes > card->total)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size = sim_round_up(bytes, sim_settings.profile->granularity);
    memory = sim_new(sizeof(*memory));
    memory->address = sim_address_take(size, false);
    memory->bytes = size;
    memory->card = card;
    memory->references = 1;
    HASH_ADD(hh, memories, address, sizeof(memory->address), memory);
    *result = sim_node_add(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    (*result)->memory = memory;
    (*result)->address = memory->address;
    /* What a captured one answers; that it is all filled in is not measured. */
    (*result)->params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    (*result)->params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    (*result)->params.poolProps.location.id = card->ordinal;
    (*result)->params.bytesize = bytes;
    (*result)->params.dptr = memory->address;
    return CUDA_SUCCESS;
}

CUresult sim_node_add_free(struct sim_graph *graph, uint64_t address, struct sim_node **result)
{
    struct sim_graph_memory *memory = sim_graph_memory_find(address);
    if (!memory)
        return CUDA_ERROR_INVALID_VALUE;
    if (!takes_memory_nodes(graph))
        return CUDA_ERROR_NOT_SUPPORTED;
    memory->references++;
    *result = sim_node_add(graph, CU_GRAPH_NODE_TYPE_MEM_FREE);
    (*result)->memory = memory;
    (*result)->address = address;
    return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    SIM_ENTER(cuGraphCreate, W(phGraph), W(flags));
    if (!phGraph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *phGraph = (CUgraph)(void *)sim_graph_new();
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
    SIM_ENTER(cuGraphDestroy, W(hGraph));
    struct sim_graph *graph = sim_object_find(hGraph, SIM_GRAPH);
    if (!graph || graph->owner)
        return CUDA_ERROR_INVALID_VALUE;
    sim_graph_end(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                             const CUgraphNode *dependencies, size_t numDependencies)
{
    SIM_ENTER(cuGraphAddEmptyNode, W(phGraphNode), W(hGraph), W(dependencies),
              W(numDependencies));
    struct sim_graph *graph = sim_graph_for(hGraph, dependencies, numDependencies);
    struct sim_node *node;
    if (!phGraphNode || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    node = sim_node_add(graph, CU_GRAPH_NODE_TYPE_EMPTY);
    sim_node_depend(node, dependencies, numDependencies);
    *phGraphNode = (CUgraphNode)(void *)node;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                const CUgraphNode *dependencies, size_t numDependencies,
                                CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphAddMemAllocNode, W(phGraphNode), W(hGraph), W(dependencies),
              W(numDependencies), W(nodeParams));
    SIM_NOTE(nodeParams, sizeof(*nodeParams));
    struct sim_graph *graph = sim_graph_for(hGraph, dependencies, numDependencies);
    struct sim_node *node;
    struct sim_card *card;
    CUresult code;
    if (!phGraphNode || !graph || !nodeParams ||
        nodeParams->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    card = sim_card_of(nodeParams->poolProps.location.id);
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    code = sim_node_add_alloc(graph, card, nodeParams->bytesize, &node);
    if (code)
        return code;
    nodeParams->dptr = node->address;
    node->params = *nodeParams;
    sim_node_depend(node, dependencies, numDependencies);
    *phGraphNode = (CUgraphNode)(void *)node;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
    SIM_ENTER(cuGraphMemAllocNodeGetParams, W(hNode), W(params_out));
    struct sim_node *node = sim_object_find(hNode, SIM_NODE);
    if (!node || !params_out || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    *params_out = node->params;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                               const CUgraphNode *dependencies, size_t numDependencies,
                               CUdeviceptr dptr)
{
    SIM_ENTER(cuGraphAddMemFreeNode, W(phGraphNode), W(hGraph), W(dependencies),
              W(numDependencies), W(dptr));
    struct sim_graph *graph = sim_graph_for(hGraph, dependencies, numDependencies);
    struct sim_node *node;
    CUresult code;
    if (!phGraphNode || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_node_add_free(graph, dptr, &node);
    if (code)
        return code;
    sim_node_depend(node, dependencies, numDependencies);
    *phGraphNode = (CUgraphNode)(void *)node;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
    SIM_ENTER(cuGraphMemFreeNodeGetParams, W(hNode), W(dptr_out));
    struct sim_node *node = sim_object_find(hNode, SIM_NODE);
    if (!node || !dptr_out || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE)
        return CUDA_ERROR_INVALID_VALUE;
    *dptr_out = node->address;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    SIM_ENTER(cuGraphGetNodes, W(hGraph), W(nodes), W(numNodes));
    struct sim_graph *graph = sim_object_find(hGraph, SIM_GRAPH);
    size_t i = 0;
    if (!graph || !numNodes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!nodes) {
        *numNodes = graph->count;
        return CUDA_SUCCESS;
    }
    for (struct sim_node *node = graph->nodes; node && i < *numNodes; node = node->next)
        nodes[i++] = (CUgraphNode)(void *)node;
    while (i < *numNodes)
        nodes[i++] = NULL;
    *numNodes = graph->count;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    SIM_ENTER(cuGraphNodeGetType, W(hNode), W(type));
    struct sim_node *node = sim_object_find(hNode, SIM_NODE);
    if (!node || !type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = node->type;
    return CUDA_SUCCESS;
}

bool sim_graph_memory_around(uint64_t address, uint64_t bytes)
{
    for (struct sim_graph_memory *one = memories; one; one = one->hh.next)
        if (address - one->address < one->bytes)
            return one->live && bytes <= one->bytes - (address - one->address);
    return false;
}
