import sys

from hermes_agent.cli.main import main

sys.exit(main())
