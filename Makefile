.PHONY: demo test test-viewer test-programs docs bench clean

demo: ## a small agent on the real SDKs, recorded, then shown
	@scripts/setup .venv-demo 'trace-recorder[openai,anthropic,google,ollama,view]'
	@.venv-demo/bin/python -m examples.demo $(ARGS)

test: ## every check
	@scripts/setup
	@scripts/check

test-viewer: ## the viewer's page in a headless browser
	@scripts/setup
	@scripts/test-viewer

test-programs: ## curl and Node's SDKs, recorded by the proxy
	@scripts/setup
	@scripts/test-programs

docs: ## the site of docs/, with a reference from the docstrings: build/site/index.html
	@scripts/setup
	@.venv/bin/zensical build --strict

bench: ## overhead against the alternatives, as ratios of one run: ROUNDS= WORKLOADS= CONTENDERS= QUICK=1 PEERS=1
	@scripts/setup
	@$(if $(PEERS),$(if $(filter-out read,$(or $(WORKLOADS),all)),scripts/setup .venv-peers $$(.venv/bin/python -m benchmarks.peers)))
	@$(if $(PEERS),$(if $(filter read,$(WORKLOADS)),scripts/setup .venv-readers $$(.venv/bin/python -m benchmarks.reading_peers)))
	@.venv/bin/python -m benchmarks $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(WORKLOADS),--workloads $(WORKLOADS)) \
		$(if $(CONTENDERS),--contenders $(CONTENDERS)) $(if $(QUICK),--quick) $(if $(PEERS),--peers) $(ARGS)

clean:
	rm -rf .venv .venv-demo build dist *.egg-info
